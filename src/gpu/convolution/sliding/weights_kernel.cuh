// The kernel of weights, for the specification that it is compiled with.
#include "gpu/convolution/sliding/weights.cuh"
#include "specification.hpp"

namespace gradnn::gpu::sliding {

extern "C" __global__ void __launch_bounds__(
        specification.cut.threads, specification.cut.blocks)
        gradnn_slide_weights(const stored_of<specification.of.type> *src,
                const stored_of<specification.of.type> *dst,
                sum_of<specification.of.type> *partials) {
    slide_weights<specification>(src, dst, partials);
}

} // namespace gradnn::gpu::sliding
