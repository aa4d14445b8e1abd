// The arithmetic of convolution.gpu_wide_weights's tiles: a CUTLASS warp-level
// operator for exact f32 sums of 16-bit products, CUTLASS's own (mma.sync, bf16 or
// f16 to f32), except for where its sums are kept.
//
// A product of two 16-bit numbers is exact in f32, within its range. But tensor
// cores truncate when they add, 16 products at a time, so that a long sum in
// one of their accumulators is off by 1e-9 times its terms. CUTLASS's main loop
// therefore gives this operator a second set of accumulators, which it adds to
// the first, by f32 additions that round, and clears once every k tile. That is
// its staged accumulation, which it takes for MathOperator
// OpMultiplyAddFastF32.
#pragma once

#include "gpu/convolution/implicit_gemm/kernel.cuh"

namespace gradnn::gpu::wide_weights {

template <typename Base>
struct staged_mma : Base {
    using MathOperator = cutlass::arch::OpMultiplyAddFastF32;
};

using implicit_gemm::shape;

template <typename Element>
struct arithmetic_of {
    using element = Element;
    using sums = float;
    using instruction = shape<16, 8, 16>;
    using products
            = implicit_gemm::changed_products<cutlass::arch::OpMultiplyAdd,
                    staged_mma>;
    static constexpr int terms = 64;
    template <int Rows, int Columns>
    using warp = shape<Rows == 128 ? 64 : 32, 32, terms>;
    static constexpr int stages = 3; ///< of up to 32 KiB
    static constexpr int read_at_once = 8;
    static constexpr const char *name = "convolution.gpu_wide_weights";
};

struct arithmetic {
    using of_bf16 = arithmetic_of<cutlass::bfloat16_t>;
    using of_f16 = arithmetic_of<cutlass::half_t>;
};

} // namespace gradnn::gpu::wide_weights
