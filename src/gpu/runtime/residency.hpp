// How many blocks of a kernel a multiprocessor holds at a time, and the shared memory
// that decides it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

template <typename... Parameters>
cudaFuncAttributes attributes_of(void (*kernel)(Parameters...)) {
    cudaFuncAttributes attributes {};
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    return attributes;
}

/// Blocks of a kernel that a multiprocessor holds.
template <typename Kernel>
int blocks_held(Kernel *kernel, int threads, size_t shared_bytes) {
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &blocks, kernel, threads, shared_bytes),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return blocks;
}

struct residency {
    int blocks = 1;
    size_t shared_bytes = 0; ///< to be asked for in the launch
    /// Whether no more than `blocks` fit. The kernel may then let the next one
    /// start (device/early_start.cuh): that one's blocks take the places of these, one
    /// by one. Else they would gather where the first of these end.
    bool full = false;
};

/// At least one and at most `most` blocks; with `pads` so much shared memory
/// that no more fit, which leaves less of it for the L1 cache.
template <typename Kernel>
residency hold_at_most(
        int most, bool pads, Kernel *kernel, int threads, size_t shared_bytes) {
    const auto held_with = [&](size_t bytes) {
        return std::max(blocks_held(kernel, threads, bytes), 1);
    };
    const int held = held_with(shared_bytes);
    if (held <= most) return {held, shared_bytes, true};
    if (!pads) return {most, shared_bytes, false};
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const multiprocessor &sm = properties_of(device).sm;
    const cudaFuncAttributes of_kernel = attributes_of(kernel);
    // One granule more than most + 1 blocks could have each.
    const int64_t padded = sm.shared_bytes / (most + 1) - sm.reserved_bytes
            - static_cast<int64_t>(of_kernel.sharedSizeBytes) + 128;
    if (padded > of_kernel.maxDynamicSharedSizeBytes
            || held_with(static_cast<size_t>(padded)) != most)
        return {most, shared_bytes, false};
    return {most, static_cast<size_t>(padded), true};
}

} // namespace gradnn::gpu
