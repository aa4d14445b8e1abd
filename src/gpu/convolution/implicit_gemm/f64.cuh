// The arithmetic of convolution.gpu_f64's tiles: the tensor cores' f64 instruction
// for CUTLASS, of 16 rows, 8 columns, 4 terms.
//
// Before compute capability 9.0 there is one of 8 rows alone, of which two make
// it: a thread's numbers of the second one follow those of the first.
#pragma once

#include <cutlass/arch/mma.h>

#include "gpu/convolution/implicit_gemm/kernel.cuh"

namespace gradnn::gpu::f64 {

/// The tag by which CUTLASS's templates are asked for it.
struct paired_products {};

} // namespace gradnn::gpu::f64

template <>
struct cutlass::arch::Mma<cutlass::gemm::GemmShape<16, 8, 4>, 32, double,
        cutlass::layout::RowMajor, double, cutlass::layout::ColumnMajor, double,
        cutlass::layout::RowMajor, gradnn::gpu::f64::paired_products> {
    using Shape = gemm::GemmShape<16, 8, 4>;
    using ElementA = double;
    using LayoutA = layout::RowMajor;
    using FragmentA = Array<double, 2>;
    using ElementB = double;
    using LayoutB = layout::ColumnMajor;
    using FragmentB = Array<double, 1>;
    using ElementC = double;
    using LayoutC = layout::RowMajor;
    using FragmentC = Array<double, 4>;
    using Operator = OpMultiplyAdd;
    using ArchTag = Sm80;

    /// d = a * b + c
    CUTLASS_DEVICE void operator()(FragmentC &d, const FragmentA &a,
            const FragmentB &b, const FragmentC &c) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64.rn "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                     : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(b[0]), "d"(c[0]), "d"(c[1]),
                     "d"(c[2]), "d"(c[3]));
#else
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rn "
                         "{%0, %1}, {%2}, {%3}, {%4, %5};"
                         : "=d"(d[2 * half]), "=d"(d[2 * half + 1])
                         : "d"(a[half]), "d"(b[0]), "d"(c[2 * half]),
                         "d"(c[2 * half + 1]));
#endif
    }
};

namespace gradnn::gpu::f64 {

using implicit_gemm::shape;

struct arithmetic {
    using element = double;
    using sums = double;
    using instruction = shape<16, 8, 4>;
    using products = paired_products;
    static constexpr int terms = 16;
    template <int Rows, int Columns>
    using warp = shape<32, Rows == 128 && Columns == 128 ? 64 : 32, terms>;
    static constexpr int stages = 3;
    /// CUTLASS's arrangements of f64 in shared memory take single numbers.
    static constexpr int read_at_once = 1;
    static constexpr const char *name = "convolution.gpu_f64";
};

} // namespace gradnn::gpu::f64
