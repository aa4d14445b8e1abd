// The kernels of convolution.gpu_f64's tiles.
#pragma once

#include "gpu/convolution/implicit_gemm/f64_mma.cuh"
#include "gpu/convolution/implicit_gemm/kernel.cuh"

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

} // namespace gradnn::gpu::f64

namespace gradnn::gpu::implicit_gemm {

template <>
struct tile_kernels<arithmetic::f64> {
    template <operation Operation, int Space, int Rows, int Columns>
    static std::unique_ptr<tile_kernel> make(
            const dense_problem &problem, int slices) {
        using warp = shape<32, Rows == 128 && Columns == 128 ? 64 : 32, 16>;
        return cutlass_kernel<f64::arithmetic, Operation, Space,
                shape<Rows, Columns, 16>, warp>::make(problem, slices);
    }
};

} // namespace gradnn::gpu::implicit_gemm
