// The kernel of weights, for the specification that it is compiled with.
#include "gpu/convolution/sliding/weights.cuh"
#include "specification.hpp"

namespace gradnn::gpu::sliding {

extern "C" __global__ void __launch_bounds__(
        specification.cut.threads, specification.cut.blocks)
        gradnn_slide_weights(const storage<specification.of.type> *src,
                const storage<specification.of.type> *dst,
                sum<specification.of.type> *partials) {
    slide_weights<specification>(src, dst, partials);
}

} // namespace gradnn::gpu::sliding
