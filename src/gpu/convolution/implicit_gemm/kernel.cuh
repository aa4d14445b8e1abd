// A CUTLASS implicit GEMM as a tile_kernel. The source made of tiles/unit.cu.in
// instantiates one for each tile of kernels.cpp.
//
// dst[n,y,o] = sum over k, i of src[n, y*stride - pad + k*dilation, i]
// * weights[o,k,i], and its gradients, as matrix products whose operands are
// gathered from the tensors as they are read:
//
//     forward       rows n,y      columns o     terms k,i
//     strided_data  rows n,x      columns i     terms k,o that meet x
//     weights       rows o        columns k,i   terms n,y
//
// A block computes a tile of rows by columns; its k tiles, of 16 terms or more,
// come to shared memory by asynchronous copies, a few in flight. With slices a
// block adds up every n-th k tile, for n slices, and writes its sums to its own slice.
// The order of every sum follows from the problem, the tile and the slices;
// nothing is atomic.
#pragma once

#include <memory>

#include <cutlass/conv/kernel/default_conv2d_dgrad.h>
#include <cutlass/conv/kernel/default_conv2d_fprop.h>
#include <cutlass/conv/kernel/default_conv2d_wgrad.h>
#include <cutlass/conv/kernel/default_conv3d_fprop.h>
#include <cutlass/conv/kernel/default_conv3d_wgrad.h>
#include <cutlass/epilogue/thread/linear_combination.h>

#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::implicit_gemm {

template <int Rows, int Columns, int Terms>
using shape = cutlass::gemm::GemmShape<Rows, Columns, Terms>;

/// The sums as they are, 16 bytes at a time.
template <typename Element>
using store = cutlass::epilogue::thread::LinearCombination<Element,
        16 / sizeof(Element), Element, Element,
        cutlass::epilogue::thread::ScaleType::Nothing>;

template <int Space>
using tensor_layout = std::conditional_t<Space == 2,
        cutlass::layout::TensorNHWC, cutlass::layout::TensorNDHWC>;

/// Neighbouring blocks take tiles of 4 columns before the next rows.
using swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>;
using strided_swizzle
        = cutlass::conv::threadblock::StridedDgradIdentityThreadblockSwizzle<4>;

using nhwc = tensor_layout<2>;
using ndhwc = tensor_layout<3>;
using tensor_cores = cutlass::arch::OpClassTensorOp;
using ampere = cutlass::arch::Sm80; ///< and later generations
constexpr auto optimized = cutlass::conv::IteratorAlgorithm::kOptimized;
constexpr auto strided = cutlass::conv::StrideSupport::kStrided;

/// CUTLASS's kernel of an operation, a number of spatial axes and a tile. The
/// arithmetic A says
///
///     element         of the inputs
///     sums            float or double: of the sums and of the output
///     instruction     the shape of the tensor cores' instruction
///     products        CUTLASS's name of the way to multiply
///     terms           of a k tile
///     warp            a warp's part of a tile of so many rows and columns
///     stages          k tiles in shared memory
///     read_at_once    elements that an asynchronous copy brings (2-D kernels;
///                     the others follow the copy's own arrangement)
///     name            for errors at launch
template <typename A, operation Operation, int Space, typename Tile,
        typename Warp>
struct kernel_of;

template <typename A, typename Tile, typename Warp>
struct kernel_of<A, operation::forward, 2, Tile, Warp> {
    using element = typename A::element;
    using sums = typename A::sums;
    using type = typename cutlass::conv::kernel::DefaultConv2dFprop<element,
            nhwc, element, nhwc, sums, nhwc, sums, tensor_cores, ampere, Tile,
            Warp, typename A::instruction, store<sums>, swizzle, A::stages,
            typename A::products, optimized, strided, A::read_at_once,
            A::read_at_once>::Kernel;
};
template <typename A, typename Tile, typename Warp>
struct kernel_of<A, operation::weights, 2, Tile, Warp> {
    using element = typename A::element;
    using sums = typename A::sums;
    using type = typename cutlass::conv::kernel::DefaultConv2dWgrad<element,
            nhwc, element, nhwc, sums, nhwc, sums, tensor_cores, ampere, Tile,
            Warp, typename A::instruction, store<sums>, swizzle, A::stages,
            typename A::products, optimized, strided, A::read_at_once,
            A::read_at_once>::Kernel;
};
template <typename A, typename Tile, typename Warp>
struct kernel_of<A, operation::strided_data, 2, Tile, Warp> {
    using element = typename A::element;
    using sums = typename A::sums;
    using type = typename cutlass::conv::kernel::DefaultConv2dDgrad<element,
            nhwc, element, nhwc, sums, nhwc, sums, tensor_cores, ampere, Tile,
            Warp, typename A::instruction, store<sums>, strided_swizzle,
            A::stages, typename A::products, optimized, strided,
            A::read_at_once, A::read_at_once>::Kernel;
};
template <typename A, typename Tile, typename Warp>
struct kernel_of<A, operation::forward, 3, Tile, Warp> {
    using element = typename A::element;
    using sums = typename A::sums;
    using parts = cutlass::conv::kernel::DefaultConv3dFprop<element, ndhwc,
            element, ndhwc, sums, ndhwc, sums, tensor_cores, ampere, Tile, Warp,
            typename A::instruction, store<sums>, swizzle, A::stages,
            typename A::products, optimized, strided>;
    // CUTLASS's own copies the weights past the first cache, as can be done
    // with 16 bytes at once alone.
    static constexpr auto second_cache = sizeof(element) * A::read_at_once == 16
            ? cutlass::arch::CacheOperation::Global
            : cutlass::arch::CacheOperation::Always;
    using pipeline = cutlass::conv::threadblock::ImplicitGemmMultistage<Tile,
            typename parts::IteratorA, typename parts::SmemIteratorA,
            cutlass::arch::CacheOperation::Always, typename parts::IteratorB,
            typename parts::SmemIteratorB, second_cache,
            typename parts::MmaPolicy, A::stages>;
    using type = cutlass::conv::kernel::ImplicitGemmConvolution<pipeline,
            typename parts::Epilogue, swizzle, cutlass::conv::Operator::kFprop,
            cutlass::conv::Conv3dProblemSize>;
};
template <typename A, typename Tile, typename Warp>
struct kernel_of<A, operation::weights, 3, Tile, Warp> {
    using element = typename A::element;
    using sums = typename A::sums;
    using type = typename cutlass::conv::kernel::DefaultConv3dWgrad<element,
            ndhwc, element, ndhwc, sums, ndhwc, sums, tensor_cores, ampere,
            Tile, Warp, typename A::instruction, store<sums>, swizzle,
            A::stages, typename A::products, optimized, strided>::Kernel;
};

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreadCount)
        run_tile(const __grid_constant__ typename Kernel::Params params) {
    extern __shared__ int4 shared[];
    Kernel()(params,
            *reinterpret_cast<typename Kernel::SharedStorage *>(shared));
}

/// One of the three tensors: dims [n, space..., channels], dense.
template <int Space>
tensor_layout<Space> layout_of(
        int64_t n, const std::array<int64_t, 3> &space, int64_t channels) {
    const auto i = [](int64_t value) { return static_cast<int>(value); };
    if constexpr (Space == 2)
        return tensor_layout<2>::packed(
                {i(n), i(space[1]), i(space[2]), i(channels)});
    else
        return tensor_layout<3>::packed(
                {i(n), i(space[0]), i(space[1]), i(space[2]), i(channels)});
}

template <typename A, operation Operation, int Space, typename Tile,
        typename Warp>
class cutlass_kernel final : public tile_kernel {
    using element = typename A::element;
    using sums = typename A::sums;
    using kernel = typename kernel_of<A, Operation, Space, Tile, Warp>::type;
    using size = typename kernel::ConvProblemSize;

    static constexpr size_t shared_bytes
            = sizeof(typename kernel::SharedStorage);
    static_assert(shared_bytes <= 99 << 10); // of 8.6, 8.9 and 12.0

    static size size_of(const dense_problem &p, int slices) {
        const auto i = [](int64_t value) { return static_cast<int>(value); };
        const auto mode = p.flipped ? cutlass::conv::Mode::kConvolution
                                    : cutlass::conv::Mode::kCrossCorrelation;
        if constexpr (Space == 2)
            return size(i(p.n), i(p.src[1]), i(p.src[2]), i(p.c), i(p.k),
                    i(p.window[1]), i(p.window[2]), i(p.dst[1]), i(p.dst[2]),
                    i(p.pads[1]), i(p.pads[2]), i(p.strides[1]),
                    i(p.strides[2]), i(p.dilations[1]), i(p.dilations[2]), mode,
                    slices);
        else
            return size(i(p.n), i(p.src[0]), i(p.src[1]), i(p.src[2]), i(p.c),
                    i(p.k), i(p.window[0]), i(p.window[1]), i(p.window[2]),
                    i(p.dst[0]), i(p.dst[1]), i(p.dst[2]), i(p.pads[0]),
                    i(p.pads[1]), i(p.pads[2]), i(p.strides[0]),
                    i(p.strides[1]), i(p.strides[2]), i(p.dilations[0]),
                    i(p.dilations[1]), i(p.dilations[2]), mode, slices);
    }

    /// All that CUTLASS derives from the problem; the pointers come later.
    static typename kernel::Params params_of(
            const dense_problem &p, int slices) {
        const auto src = layout_of<Space>(p.n, p.src, p.c);
        const auto weights = layout_of<Space>(p.k, p.window, p.c);
        const auto dst = layout_of<Space>(p.n, p.dst, p.k);
        auto first = src;
        auto second = weights;
        auto output = dst;
        if constexpr (Operation == operation::strided_data) {
            first = dst;
            output = src;
        } else if constexpr (Operation == operation::weights) {
            first = dst;
            second = src;
            output = weights;
        }
        return typename kernel::Params(
                typename kernel::Arguments(size_of(p, slices), {nullptr, first},
                        {nullptr, second}, {nullptr, output}, {nullptr, output},
                        typename store<sums>::Params(),
                        cutlass::conv::SplitKMode::kParallel));
    }

public:
    explicit cutlass_kernel(const dense_problem &p, int slices)
        : params_(params_of(p, slices)),
          grid_(typename kernel::ThreadblockSwizzle {}.get_grid_shape(
                  params_.grid_tiled_shape)) {
        allow_shared_bytes(run_tile<kernel>, shared_bytes);
    }

    static std::unique_ptr<tile_kernel> make(
            const dense_problem &p, int slices) {
        const size problem = size_of(p, slices);
        constexpr auto success = cutlass::Status::kSuccess;
        if (kernel::Mma::IteratorA::can_implement(problem) != success
                || kernel::Mma::IteratorB::can_implement(problem) != success)
            return nullptr;
        auto made = std::make_unique<cutlass_kernel>(p, slices);
        constexpr unsigned most_blocks = 65535; // along y and z
        if (made->grid_.y > most_blocks || made->grid_.z > most_blocks)
            return nullptr;
        return made;
    }

    void run(const void *first, const void *second, void *output,
            cudaStream_t stream) const override {
        typename kernel::Params params = params_;
        params.ptr_A = static_cast<const element *>(first);
        params.ptr_B = static_cast<const element *>(second);
        params.ptr_C = static_cast<sums *>(output);
        params.ptr_D = static_cast<sums *>(output);
        launch(A::name, run_tile<kernel>, grid_, kernel::kThreadCount,
                shared_bytes, stream, params);
    }

private:
    const typename kernel::Params params_;
    const dim3 grid_;
};

/// The kernel of a tile. An arithmetic of two types, bf16 and f16, is that of the
/// problem's inputs.
template <typename A, operation Operation, int Space, int Rows, int Columns>
std::unique_ptr<tile_kernel> make_of(const dense_problem &problem, int slices) {
    if constexpr (requires { typename A::of_bf16; })
        return problem.types.input == detail::data_type::bf16
                ? make_of<typename A::of_bf16, Operation, Space, Rows, Columns>(
                        problem, slices)
                : make_of<typename A::of_f16, Operation, Space, Rows, Columns>(
                        problem, slices);
    else
        return cutlass_kernel<A, Operation, Space,
                shape<Rows, Columns, A::terms>,
                typename A::template warp<Rows, Columns>>::make(problem,
                slices);
}

} // namespace gradnn::gpu::implicit_gemm
