// The kernels of weights, for the specification that they are compiled with: partial sums,
// and the sum of these.
#include "gpu/convolution/sliding/weights.cuh"
#include "gpu/convolution/sliding/weights_sum.cuh"
#include "specification.hpp"

namespace gradnn::gpu::sliding {

extern "C" __global__ void __launch_bounds__(
        specification.cut.threads, specification.cut.blocks)
        gradnn_slide_weights(const storage<specification.of.type> *src,
                const storage<specification.of.type> *dst,
                sum<specification.of.type> *partials) {
    slide_weights<specification>(src, dst, partials);
}

extern "C" __global__ void __launch_bounds__(256)
        gradnn_add_parts(const storage<specification.of.type> *src,
                const storage<specification.of.type> *dst,
                const sum<specification.of.type> *partials,
                storage<specification.of.weights_type> *weights) {
    add_parts<specification>(src, dst, partials, weights);
}

} // namespace gradnn::gpu::sliding
