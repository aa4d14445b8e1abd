#include "gpu/convolution_tf32x3.hpp"
#include "gpu/convolution_tf32x3_kernel.cuh"

namespace gradnn::gpu::tf32x3 {

std::unique_ptr<tile_kernel> make_strided_data_128x64(
        const dense_problem &problem, int slices) {
    return cutlass_kernel<operation::strided_data, 2, shape<128, 64, 16>,
            shape<64, 32, 16>>::make(problem, slices);
}

} // namespace gradnn::gpu::tf32x3
