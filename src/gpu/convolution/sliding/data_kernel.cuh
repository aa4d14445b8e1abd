// The kernel of data, for the specification that it is compiled with.
#include "gpu/convolution/sliding/data.cuh"
#include "specification.hpp"

namespace gradnn::gpu::sliding {

extern "C" __global__ void __launch_bounds__(
        specification.cut.threads, specification.cut.blocks)
        gradnn_slide_data(const storage<specification.of.type> *read,
                const storage<specification.of.type> *weights,
                storage<specification.of.type> *written, fused_places others) {
    slide_data<specification>(read, weights, written, others);
}

} // namespace gradnn::gpu::sliding
