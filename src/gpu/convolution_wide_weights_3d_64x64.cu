#include "gpu/convolution_wide_weights.hpp"
#include "gpu/convolution_wide_weights_kernel.cuh"

namespace gradnn::gpu::wide_weights {

std::unique_ptr<tile_kernel> make_3d_64x64(
        const dense_problem &problem, int slices) {
    return make_tile<3, shape<64, 64, 64>, shape<32, 32, 64>>(problem, slices);
}

} // namespace gradnn::gpu::wide_weights
