// The kernels of convolution.gpu_tf32x3's tiles.
#pragma once

#include "gpu/convolution/implicit_gemm/kernel.cuh"
#include "gpu/convolution/implicit_gemm/tf32x3_mma.cuh"

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

} // namespace gradnn::gpu::tf32x3

namespace gradnn::gpu::implicit_gemm {

template <>
struct tile_kernels<arithmetic::tf32x3> {
    template <operation Operation, int Space, int Rows, int Columns>
    static std::unique_ptr<tile_kernel> make(
            const dense_problem &problem, int slices) {
        using warp = shape<Rows * Columns >= 64 * 128 ? 64 : 32, 32, 16>;
        return cutlass_kernel<tf32x3::arithmetic, Operation, Space,
                shape<Rows, Columns, 16>, warp>::make(problem, slices);
    }
};

} // namespace gradnn::gpu::implicit_gemm
