// The kernels of convolution.gpu_f64's tiles.
#pragma once

#include "gpu/convolution_f64_mma.cuh"
#include "gpu/convolution_implicit_gemm_kernel.cuh"

namespace gradnn::gpu::f64 {

using implicit_gemm::shape;

struct arithmetic {
    using element = double;
    using sums = double;
    using instruction = shape<16, 8, 4>;
    using products = paired_products;
    static constexpr int stages = 3;
    /// CUTLASS's arrangements of f64 in shared memory take single numbers.
    static constexpr int read_at_once = 1;
    static constexpr const char *name = "convolution.gpu_f64";
};

template <implicit_gemm::operation Operation, int Space, typename Tile,
        typename Warp>
using cutlass_kernel = implicit_gemm::cutlass_kernel<arithmetic, Operation,
        Space, Tile, Warp>;

} // namespace gradnn::gpu::f64
