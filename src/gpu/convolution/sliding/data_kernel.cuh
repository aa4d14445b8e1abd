// The kernel of data, for the specification that it is compiled with.
#include "gpu/convolution/sliding/data.cuh"
#include "specification.hpp"

namespace gradnn::gpu::sliding {

extern "C" __global__ void __launch_bounds__(
        specification.cut.threads, specification.cut.blocks)
        gradnn_slide_data(const stored_of<specification.of.type> *read,
                const stored_of<specification.of.type> *weights,
                stored_of<specification.of.type> *written,
                fused_places others) {
    slide_data<specification>(read, weights, written, others);
}

} // namespace gradnn::gpu::sliding
