// The kernels of convolution.gpu_tf32x3's tiles.
#pragma once

#include "gpu/convolution_implicit_gemm_kernel.cuh"
#include "gpu/convolution_tf32x3_mma.cuh"

namespace gradnn::gpu::tf32x3 {

using implicit_gemm::shape;

struct arithmetic {
    using element = float;
    using sums = float;
    using instruction = shape<16, 8, 8>;
    using products = exact_products;
    static constexpr int stages = 4;
    static constexpr int read_at_once = 4;
    static constexpr const char *name = "convolution.gpu_tf32x3";
};

template <implicit_gemm::operation Operation, int Space, typename Tile,
        typename Warp>
using cutlass_kernel = implicit_gemm::cutlass_kernel<arithmetic, Operation,
        Space, Tile, Warp>;

} // namespace gradnn::gpu::tf32x3
