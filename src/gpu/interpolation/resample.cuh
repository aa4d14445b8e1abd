// The kernels, by the form that their specification says: threads read global memory, or
// tiles of shared memory, or share rows of sums in it.
#pragma once

#include "gpu/interpolation/lines.cuh"
#include "gpu/interpolation/tiles.cuh"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::resample {

template <const specification_of_kernel &s>
__device__ void resample(const jit::stored_of<s.of.type> *read,
        jit::stored_of<s.of.type> *written,
        const tables<jit::sum_of<s.of.type>> &map) {
    wait_and_let_later_work_start();
    if constexpr (s.of.walk_first)
        kernel_of<s>::words::resample(read, written, map);
    else if constexpr (s.cut_by.stages > 0)
        kernel_of<s>::tile::resample(read, written, map);
    else
        kernel_of<s>::walk::resample(read, written, map);
}

} // namespace gradnn::gpu::resample
