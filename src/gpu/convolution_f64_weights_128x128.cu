#include "gpu/convolution_f64.hpp"
#include "gpu/convolution_f64_kernel.cuh"

namespace gradnn::gpu::f64 {

std::unique_ptr<tile_kernel> make_weights_128x128(
        const dense_problem &problem, int slices) {
    return cutlass_kernel<operation::weights, 2, shape<128, 128, 16>,
            shape<32, 64, 16>>::make(problem, slices);
}

} // namespace gradnn::gpu::f64
