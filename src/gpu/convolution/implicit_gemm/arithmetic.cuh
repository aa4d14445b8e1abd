// How the tiles multiply and add.
//
// Where sums of f32 are kept: tensor cores truncate when they add, so that a long sum in
// one of their accumulators drifts (of 16-bit products, which are exact in f32, by 1e-9
// times its terms). CUTLASS's main loop therefore gives a warp-level operator a second set
// of accumulators, which it adds to the first, by f32 additions that round, and clears once
// every k tile. That is its staged accumulation, which it takes for MathOperator
// OpMultiplyAddFastF32.
#pragma once

#include <cutlass/arch/mma.h>
#include <cutlass/gemm/warp/default_mma_tensor_op_sm80.h>

#include "gpu/convolution/implicit_gemm/tf32x3_split.hpp"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::implicit_gemm {

template <int Rows, int Columns, int Terms>
using shape = cutlass::gemm::GemmShape<Rows, Columns, Terms>;

/// The tag by which CUTLASS's templates are asked for the products of another tag, with
/// what Changed makes of the warp-level operator in its place.
template <typename Tag, template <typename> typename Changed>
struct changed_products {};

/// The tag by which they are asked for f64's.
struct paired_products {};

} // namespace gradnn::gpu::implicit_gemm

template <typename WarpShape, typename InstructionShape, typename Element,
        typename LayoutA, typename LayoutB, typename LayoutC, typename Tag,
        template <typename> typename Changed, int PartitionsK, bool RowMajor>
struct cutlass::gemm::warp::DefaultMmaTensorOp<WarpShape, InstructionShape,
        Element, LayoutA, Element, LayoutB, float, LayoutC,
        gradnn::gpu::implicit_gemm::changed_products<Tag, Changed>, PartitionsK,
        RowMajor> {
    using Stock = DefaultMmaTensorOp<WarpShape, InstructionShape, Element,
            LayoutA, Element, LayoutB, float, LayoutC, Tag, PartitionsK,
            RowMajor>;
    using Policy = typename Stock::Policy;
    using Type = Changed<typename Stock::Type>;
};

/// The tensor cores' f64 instruction, which CUTLASS has for 9.0 alone.
template <>
struct cutlass::arch::Mma<cutlass::gemm::GemmShape<16, 8, 4>, 32, double,
        cutlass::layout::RowMajor, double, cutlass::layout::ColumnMajor, double,
        cutlass::layout::RowMajor, gradnn::gpu::implicit_gemm::paired_products>
    : cutlass::arch::Mma<cutlass::gemm::GemmShape<16, 8, 4>, 32, double,
              cutlass::layout::RowMajor, double, cutlass::layout::ColumnMajor,
              double, cutlass::layout::RowMajor, cutlass::arch::OpMultiplyAdd> {
    using ArchTag = Sm80;

    /// d = a * b + c
    CUTLASS_DEVICE void operator()(FragmentC &d, const FragmentA &a,
            const FragmentB &b, const FragmentC &c) const {
        gradnn::gpu::multiply_f64_matrices(d.data(), a.data(), b[0], c.data());
    }
};

namespace gradnn::gpu::implicit_gemm {

// An arithmetic has
//
//     element         of the inputs
//     sums            float or double: of the sums and of the output
//     instruction     the shape of the tensor cores' instruction
//     products        CUTLASS's name of the way to multiply
//     terms           of a k tile
//     warp            a warp's part of a tile of so many rows and columns
//     stages          k tiles in shared memory
//     read_at_once    elements that an asynchronous copy brings (2-D kernels;
//                     the others follow the copy's own arrangement)

struct f64 {
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
};

/// CUTLASS's operator of three TF32 products (MmaTensorOpFastF32), with gradnn's split of
/// the operands in place of its own, which is right for infinite and NaN inputs.
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

struct tf32x3 {
    using element = float;
    using sums = float;
    using instruction = shape<16, 8, 8>;
    using products
            = changed_products<cutlass::arch::OpMultiplyAddFastF32, exact_mma>;
    static constexpr int terms = 16;
    template <int Rows, int Columns>
    using warp = shape<Rows * Columns >= 64 * 128 ? 64 : 32, 32, terms>;
    static constexpr int stages = 4;
    static constexpr int read_at_once = 4;
};

/// CUTLASS's operator of 16-bit products (mma.sync) with staged accumulation.
template <typename Base>
struct staged_mma : Base {
    using MathOperator = cutlass::arch::OpMultiplyAddFastF32;
};

template <typename Element>
struct wide_weights_of {
    using element = Element;
    using sums = float;
    using instruction = shape<16, 8, 16>;
    using products = changed_products<cutlass::arch::OpMultiplyAdd, staged_mma>;
    static constexpr int terms = 64;
    template <int Rows, int Columns>
    using warp = shape<Rows == 128 ? 64 : 32, 32, terms>;
    static constexpr int stages = 3; ///< of up to 32 KiB
    static constexpr int read_at_once = 8;
};

struct wide_weights {
    using of_bf16 = wide_weights_of<cutlass::bfloat16_t>;
    using of_f16 = wide_weights_of<cutlass::half_t>;
};

} // namespace gradnn::gpu::implicit_gemm
