// A CUTLASS implicit GEMM as a tile_kernel (README.md has rows, columns and terms).
//
// A block computes a tile of rows by columns; its k tiles, of 16 terms or more,
// come to shared memory by asynchronous copies, a few in flight. With slices a
// block adds up every n-th k tile, for n slices, and writes its sums to its own slice.
// The order of every sum follows from the problem, the tile and the slices;
// nothing is atomic.
#pragma once

#include <algorithm>
#include <type_traits>

#include <cutlass/conv/kernel/default_conv2d_dgrad.h>
#include <cutlass/conv/kernel/default_conv2d_fprop.h>
#include <cutlass/conv/kernel/default_conv2d_wgrad.h>
#include <cutlass/conv/kernel/default_conv3d_fprop.h>
#include <cutlass/conv/kernel/default_conv3d_wgrad.h>
#include <cutlass/epilogue/thread/linear_combination.h>

#include "gpu/convolution/implicit_gemm/arithmetic.cuh"
#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/elements.cuh"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu::implicit_gemm {

/// The sums as they are, 16 bytes at a time.
template <typename Element>
using store = cutlass::epilogue::thread::LinearCombination<Element,
        16 / sizeof(Element), Element, Element,
        cutlass::epilogue::thread::ScaleType::Nothing>;

/// CUTLASS's iterator over a tile of the output, which computes the ops behind with what it
/// stores.
template <typename Base>
struct fused_iterator : Base {
    struct Params : Base::Params {
        using Base::Params::Params;
        jit::fused_op ops[2] {};
        jit::fused_places others {};
    };
    template <typename... Places>
    __device__ fused_iterator(const Params &params, typename Base::Element *to,
            const Places &...places)
        : Base(params, to, places...), params_(&params) {}

    __device__ void store(typename Base::Fragment values) {
        // Apart, so that kernels without ops need no more registers.
        if (params_->ops[0] == jit::fused_op::none) return Base::store(values);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            if (params_->ops[e] == jit::fused_op::none) break;
            typename Base::Fragment other;
            other.clear();
            this->load_with_byte_offset(other, params_->others.epilogue[e]);
#pragma unroll
            for (int i = 0; i < Base::Fragment::kElements; ++i)
                values[i] = jit::computed(params_->ops[e], values[i], other[i]);
        }
        Base::store(values);
    }

private:
    const Params *params_;
};

/// A kernel of CUTLASS, or its epilogue, with that iterator.
template <typename Stock>
struct fused;
template <typename Tile, typename Warps, int Partitions, typename Iterator,
        typename Sums, typename ToShared, typename FromShared, typename Store,
        typename Padding, int Fragments, int Unrolled>
struct fused<cutlass::epilogue::threadblock::Epilogue<Tile, Warps, Partitions,
        Iterator, Sums, ToShared, FromShared, Store, Padding, Fragments,
        Unrolled>> {
    using type = cutlass::epilogue::threadblock::Epilogue<Tile, Warps,
            Partitions, fused_iterator<Iterator>, Sums, ToShared, FromShared,
            Store, Padding, Fragments, Unrolled>;
};
template <template <typename, typename, typename, cutlass::conv::Operator,
                  typename, auto...>
          typename Kernel,
        typename Loop, typename Epilogue, typename Swizzle,
        cutlass::conv::Operator Operation, typename Size, auto... Others>
struct fused<Kernel<Loop, Epilogue, Swizzle, Operation, Size, Others...>> {
    using type = Kernel<Loop, typename fused<Epilogue>::type, Swizzle,
            Operation, Size, Others...>;
};

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

/// CUTLASS's kernel of an operation, a number of spatial axes and a tile, with an arithmetic
/// (arithmetic.cuh).
template <typename A, operation Operation, int Space, typename Tile,
        typename Warp>
auto kernel_type() {
    namespace conv = cutlass::conv::kernel;
    using element = typename A::element;
    using sums = typename A::sums;
    using step = typename A::instruction;
    using products = typename A::products;
    constexpr int at_once = A::read_at_once;
    if constexpr (Operation == operation::forward && Space == 2) {
        return std::type_identity<typename conv::DefaultConv2dFprop<element,
                nhwc, element, nhwc, sums, nhwc, sums, tensor_cores, ampere,
                Tile, Warp, step, store<sums>, swizzle, A::stages, products,
                optimized, strided, at_once, at_once>::Kernel>();
    } else if constexpr (Operation == operation::weights && Space == 2) {
        return std::type_identity<typename conv::DefaultConv2dWgrad<element,
                nhwc, element, nhwc, sums, nhwc, sums, tensor_cores, ampere,
                Tile, Warp, step, store<sums>, swizzle, A::stages, products,
                optimized, strided, at_once, at_once>::Kernel>();
    } else if constexpr (Operation == operation::strided_data) {
        return std::type_identity<typename conv::DefaultConv2dDgrad<element,
                nhwc, element, nhwc, sums, nhwc, sums, tensor_cores, ampere,
                Tile, Warp, step, store<sums>, strided_swizzle, A::stages,
                products, optimized, strided, at_once, at_once>::Kernel>();
    } else if constexpr (Operation == operation::weights) {
        return std::type_identity<typename conv::DefaultConv3dWgrad<element,
                ndhwc, element, ndhwc, sums, ndhwc, sums, tensor_cores, ampere,
                Tile, Warp, step, store<sums>, swizzle, A::stages, products,
                optimized, strided>::Kernel>();
    } else {
        using parts = conv::DefaultConv3dFprop<element, ndhwc, element, ndhwc,
                sums, ndhwc, sums, tensor_cores, ampere, Tile, Warp, step,
                store<sums>, swizzle, A::stages, products, optimized, strided>;
        // CUTLASS's own copies the weights past the first cache, as can be done
        // with 16 bytes at once alone.
        using cache = cutlass::arch::CacheOperation;
        constexpr auto second_cache = sizeof(element) * at_once == 16
                ? cache::Global
                : cache::Always;
        using pipeline = cutlass::conv::threadblock::ImplicitGemmMultistage<
                Tile, typename parts::IteratorA, typename parts::SmemIteratorA,
                cache::Always, typename parts::IteratorB,
                typename parts::SmemIteratorB, second_cache,
                typename parts::MmaPolicy, A::stages>;
        return std::type_identity<conv::ImplicitGemmConvolution<pipeline,
                typename parts::Epilogue, swizzle,
                cutlass::conv::Operator::kFprop,
                cutlass::conv::Conv3dProblemSize>>();
    }
}

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

template <typename Size>
Size size_of(const dense_problem &p, int slices) {
    const auto i = [](int64_t value) { return static_cast<int>(value); };
    const auto mode = p.flipped ? cutlass::conv::Mode::kConvolution
                                : cutlass::conv::Mode::kCrossCorrelation;
    if constexpr (std::is_same_v<Size, cutlass::conv::Conv2dProblemSize>)
        return Size(i(p.n), i(p.src[1]), i(p.src[2]), i(p.c), i(p.k),
                i(p.window[1]), i(p.window[2]), i(p.dst[1]), i(p.dst[2]),
                i(p.pads[1]), i(p.pads[2]), i(p.strides[1]), i(p.strides[2]),
                i(p.dilations[1]), i(p.dilations[2]), mode, slices);
    else
        return Size(i(p.n), i(p.src[0]), i(p.src[1]), i(p.src[2]), i(p.c),
                i(p.k), i(p.window[0]), i(p.window[1]), i(p.window[2]),
                i(p.dst[0]), i(p.dst[1]), i(p.dst[2]), i(p.pads[0]),
                i(p.pads[1]), i(p.pads[2]), i(p.strides[0]), i(p.strides[1]),
                i(p.strides[2]), i(p.dilations[0]), i(p.dilations[1]),
                i(p.dilations[2]), mode, slices);
}

template <typename A, operation Operation, int Space, typename Tile,
        typename Warp>
tile_kernel bind(const char *name, const dense_problem &p, int slices) {
    using element = typename A::element;
    using sums = typename A::sums;
    constexpr bool of_data = Operation != operation::weights;
    using stock = typename decltype(kernel_type<A, Operation, Space, Tile,
            Warp>())::type;
    using kernel = typename std::conditional_t<of_data, fused<stock>,
            std::type_identity<stock>>::type;
    constexpr size_t shared_bytes = sizeof(typename kernel::SharedStorage);
    static_assert(shared_bytes <= 99 << 10); // of 8.6, 8.9 and 12.0
    const auto size = size_of<typename kernel::ConvProblemSize>(p, slices);
    constexpr auto success = cutlass::Status::kSuccess;
    if (kernel::Mma::IteratorA::can_implement(size) != success
            || kernel::Mma::IteratorB::can_implement(size) != success)
        return nullptr;
    const auto src = layout_of<Space>(p.n, p.src, p.c);
    const auto weights = layout_of<Space>(p.k, p.window, p.c);
    const auto dst = layout_of<Space>(p.n, p.dst, p.k);
    const auto &first = Operation == operation::forward ? src : dst;
    const auto &second = Operation == operation::weights ? src : weights;
    const auto &output = Operation == operation::forward ? dst
            : Operation == operation::weights            ? weights
                                                         : src;
    // All that CUTLASS derives from the problem; the pointers come later.
    typename kernel::Params bound(typename kernel::Arguments(size,
            {nullptr, first}, {nullptr, second}, {nullptr, output},
            {nullptr, output}, typename store<sums>::Params(),
            cutlass::conv::SplitKMode::kParallel));
    if constexpr (of_data)
        if (partial_bytes(p, slices) == 0)
            std::ranges::copy(p.epilogue, bound.iterator_D.ops);
    const dim3 grid = typename kernel::ThreadblockSwizzle {}.get_grid_shape(
            bound.grid_tiled_shape);
    constexpr unsigned most_blocks = 65535; // along y and z
    if (grid.y > most_blocks || grid.z > most_blocks) return nullptr;
    allow_shared_bytes(run_tile<kernel>, shared_bytes);
    return [=](const void *a, const void *b, void *to,
                   const jit::fused_places &others, std::byte *,
                   const launch_stream &stream) {
        typename kernel::Params params = bound;
        params.ptr_A = static_cast<const element *>(a);
        params.ptr_B = static_cast<const element *>(b);
        params.ptr_C = params.ptr_D = static_cast<sums *>(to);
        if constexpr (of_data) params.iterator_D.others = others;
        launch(name, run_tile<kernel>, grid, kernel::kThreadCount, shared_bytes,
                stream, params);
    };
}

/// The kernel of a tile. An arithmetic of two types, bf16 and f16, is that of the
/// problem's inputs.
template <typename A, operation Operation, int Space, int Rows, int Columns>
tile_kernel make_of(
        const char *name, const dense_problem &problem, int slices) {
    if constexpr (requires { typename A::of_bf16; })
        return problem.types.input == detail::data_type::bf16
                ? make_of<typename A::of_bf16, Operation, Space, Rows, Columns>(
                        name, problem, slices)
                : make_of<typename A::of_f16, Operation, Space, Rows, Columns>(
                        name, problem, slices);
    else
        return bind<A, Operation, Space, shape<Rows, Columns, A::terms>,
                typename A::template warp<Rows, Columns>>(
                name, problem, slices);
}

} // namespace gradnn::gpu::implicit_gemm
