#include "gpu/runtime/cuda_check.hpp"

#include "base/text.hpp"

namespace gradnn::gpu {

using detail::text;

void fail(cudaError_t result, const char *call, size_t bytes) {
    static_cast<void>(cudaGetLastError());
    std::string message = text(call, " failed: ", cudaGetErrorString(result),
            " (", cudaGetErrorName(result), ")");
    if (result == cudaErrorMemoryAllocation) {
        if (bytes != 0) message += text("; ", bytes, " bytes were asked for");
        throw error(status::out_of_memory, message);
    }
    // An error that is still there after it was cleared came from the device
    // and has destroyed the process's context on it.
    if (cudaPeekAtLastError() != cudaSuccess)
        message += "; CUDA cannot be used any more in this process";
    throw error(status::runtime_error, message);
}

} // namespace gradnn::gpu
