// Checking of CUDA calls: a failure becomes gradnn::error.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace gradnn::gpu {

/// Throws the gradnn::error for a failed call: status out_of_memory where
/// memory ran out (the message then says `bytes`, unless 0), runtime_error
/// otherwise; the message holds the call and CUDA's own message. Clears CUDA's
/// last error, so that the failure does not show up again in the caller's next
/// check; where the failure is one that CUDA does not forget, the message says
/// so.
[[noreturn]] void fail(cudaError_t result, const char *call, size_t bytes);

/// Nothing for cudaSuccess, fail() otherwise. `call` is what was called:
/// "cudaStreamSynchronize", or for a launch the kernel's name. `bytes`: that it allocates.
inline void check(cudaError_t result, const char *call, size_t bytes = 0) {
    if (result != cudaSuccess) [[unlikely]]
        fail(result, call, bytes);
}

/// For destructors: a failure is dropped and CUDA's last error cleared.
inline void ignore(cudaError_t result) noexcept {
    if (result != cudaSuccess) [[unlikely]]
        static_cast<void>(cudaGetLastError());
}

} // namespace gradnn::gpu
