// The kernels of convolution.gpu_wide_weights's tiles.
#pragma once

#include "gpu/convolution_implicit_gemm_kernel.cuh"
#include "gpu/convolution_wide_weights_mma.cuh"

namespace gradnn::gpu::wide_weights {

using implicit_gemm::shape;

template <typename Element>
struct arithmetic {
    using element = Element;
    using sums = float;
    using instruction = shape<16, 8, 16>;
    using products = staged_products;
    static constexpr int stages = 3; ///< of up to 32 KiB
    static constexpr int read_at_once = 8;
    static constexpr const char *name = "convolution.gpu_wide_weights";
};

template <typename Element, int Space, typename Tile, typename Warp>
using cutlass_kernel = implicit_gemm::cutlass_kernel<arithmetic<Element>,
        implicit_gemm::operation::weights, Space, Tile, Warp>;

/// Of the problem's type of inputs, bf16 or f16.
template <int Space, typename Tile, typename Warp>
std::unique_ptr<implicit_gemm::tile_kernel> make_tile(
        const implicit_gemm::dense_problem &problem, int slices) {
    if (problem.types.input == detail::data_type::bf16)
        return cutlass_kernel<cutlass::bfloat16_t, Space, Tile, Warp>::make(
                problem, slices);
    return cutlass_kernel<cutlass::half_t, Space, Tile, Warp>::make(
            problem, slices);
}

} // namespace gradnn::gpu::wide_weights
