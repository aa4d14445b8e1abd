// The arithmetic of convolution.gpu_f64's tiles: the tensor cores' f64 instruction
// for CUTLASS, of 16 rows, 8 columns, 4 terms.
#pragma once

#include <cutlass/arch/mma.h>

#include "gpu/convolution/implicit_gemm/kernel.cuh"
#include "gpu/device/tensor_cores.cuh"

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
        gradnn::gpu::multiply_f64_matrices(d.data(), a.data(), b[0], c.data());
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
