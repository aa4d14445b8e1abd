// The kernel, for the specification that it is compiled with.
#include "gpu/interpolation/lines.cuh"
#include "specification.hpp"

namespace gradnn::gpu::resample {

extern "C" __global__ void __launch_bounds__(
        specification.cut_by.threads, specification.cut_by.blocks)
        gradnn_resample(const jit::stored_of<specification.of.type> *read,
                jit::stored_of<specification.of.type> *written,
                const tables<jit::sum_of<specification.of.type>> map) {
    resample<specification>(read, written, map);
}

} // namespace gradnn::gpu::resample
