// Shared memory beyond what a block has without asking.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "gpu/runtime/cuda_check.hpp"

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

} // namespace gradnn::gpu
