// The arithmetic of convolution.gpu_tf32x3's tiles: a CUTLASS warp-level operator
// for strict f32, CUTLASS's own for three TF32 products (MmaTensorOpFastF32), with
// gradnn's split of the operands in place of its own, which is right for infinite and
// NaN inputs (tf32x3_split.hpp).
//
// Where the sums are kept: tensor cores truncate when they add, so a long sum
// in one of their accumulators drifts. CUTLASS's main loop therefore gives
// this operator a second set of accumulators, which it adds to the first, by
// f32 additions that round, and clears once every k tile (16 terms). That is
// its staged accumulation, which it takes for MathOperator
// OpMultiplyAddFastF32.
#pragma once

#include "gpu/convolution/implicit_gemm/kernel.cuh"
#include "gpu/convolution/implicit_gemm/tf32x3_split.hpp"

namespace gradnn::gpu::tf32x3 {

template <typename Base>
struct exact_mma : Base {
    __device__ void transform(typename Base::TransformedFragmentA &split_a,
            typename Base::TransformedFragmentB &split_b,
            const typename Base::FragmentA &a,
            const typename Base::FragmentB &b) const {
        split_all(split_a, a);
        split_all(split_b, b);
    }

private:
    /// All big parts, then all small ones.
    template <typename Split, typename Fragment>
    __device__ static void split_all(Split &parts, const Fragment &numbers) {
        using part = typename Split::Element;
        constexpr int count = Fragment::kElements;
        static_assert(Split::kElements == 2 * count);
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const split_number each = split(numbers[i]);
            parts[i] = part::bitcast(each.big);
            parts[count + i] = part::bitcast(each.small);
        }
    }
};

using implicit_gemm::shape;

struct arithmetic {
    using element = float;
    using sums = float;
    using instruction = shape<16, 8, 8>;
    using products = implicit_gemm::changed_products<
            cutlass::arch::OpMultiplyAddFastF32, exact_mma>;
    static constexpr int terms = 16;
    template <int Rows, int Columns>
    using warp = shape<Rows * Columns >= 64 * 128 ? 64 : 32, 32, terms>;
    static constexpr int stages = 4;
    static constexpr int read_at_once = 4;
    static constexpr const char *name = "convolution.gpu_tf32x3";
};

} // namespace gradnn::gpu::tf32x3
