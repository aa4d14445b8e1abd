// How many blocks of a kernel a multiprocessor holds at a time.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

/// Blocks of a kernel that a multiprocessor holds.
template <typename Kernel>
int blocks_held(Kernel *kernel, int threads, size_t shared_bytes) {
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &blocks, kernel, threads, shared_bytes),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return blocks;
}

} // namespace gradnn::gpu
