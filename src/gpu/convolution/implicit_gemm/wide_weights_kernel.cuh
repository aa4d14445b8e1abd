// The kernels of convolution.gpu_wide_weights's tiles.
#pragma once

#include "gpu/convolution/implicit_gemm/kernel.cuh"
#include "gpu/convolution/implicit_gemm/wide_weights_mma.cuh"

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

} // namespace gradnn::gpu::wide_weights

namespace gradnn::gpu::implicit_gemm {

template <>
struct tile_kernels<arithmetic::wide_weights> {
    /// Of the problem's type of inputs, bf16 or f16.
    template <operation Operation, int Space, int Rows, int Columns>
    static std::unique_ptr<tile_kernel> make(
            const dense_problem &problem, int slices) {
        if (problem.types.input == detail::data_type::bf16)
            return make_of<cutlass::bfloat16_t, Operation, Space, Rows,
                    Columns>(problem, slices);
        return make_of<cutlass::half_t, Operation, Space, Rows, Columns>(
                problem, slices);
    }

private:
    template <typename Element, operation Operation, int Space, int Rows,
            int Columns>
    static std::unique_ptr<tile_kernel> make_of(
            const dense_problem &problem, int slices) {
        using warp = shape<Rows == 128 ? 64 : 32, 32, 64>;
        return cutlass_kernel<wide_weights::arithmetic<Element>, Operation,
                Space, shape<Rows, Columns, 64>, warp>::make(problem, slices);
    }
};

} // namespace gradnn::gpu::implicit_gemm
