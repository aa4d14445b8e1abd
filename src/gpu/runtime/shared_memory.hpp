// Shared memory beyond what a block has without asking.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

/// Lets the blocks of a kernel have so much dynamic shared memory on the current
/// device, ahead of launches.
template <typename... Parameters>
void allow_shared_bytes(void (*kernel)(Parameters...), size_t bytes) {
    check(cudaFuncSetAttribute(kernel,
                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                  static_cast<int>(bytes)),
            "cudaFuncSetAttribute");
}

template <typename... Parameters>
cudaFuncAttributes attributes_of(void (*kernel)(Parameters...)) {
    cudaFuncAttributes attributes {};
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    return attributes;
}

/// Lets the blocks of a kernel have what `device` allows, at most `most` bytes, and
/// prefers shared memory to the L1 cache. Returns what they may have. The same for
/// all plans, which share the kernel.
template <typename... Parameters>
int64_t allow_most_shared_bytes(
        void (*kernel)(Parameters...), int device, int64_t most) {
    const int64_t bytes = std::min(most,
            static_cast<int64_t>(properties_of(device).block_shared_bytes)
                    - static_cast<int64_t>(
                            attributes_of(kernel).sharedSizeBytes));
    allow_shared_bytes(kernel, static_cast<size_t>(bytes));
    check(cudaFuncSetAttribute(kernel,
                  cudaFuncAttributePreferredSharedMemoryCarveout,
                  cudaSharedmemCarveoutMaxShared),
            "cudaFuncSetAttribute");
    return bytes;
}

} // namespace gradnn::gpu
