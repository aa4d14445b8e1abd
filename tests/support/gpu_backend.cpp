// Registers the GPU with the suite: its memory and its kernel lists.
#include <stdexcept>

#include <cuda_runtime_api.h>

#include "engines.hpp"
#include "gpu/backend.hpp"

namespace gradnn::test {

namespace {

void require(cudaError_t result, const char *call) {
    if (result != cudaSuccess)
        throw std::runtime_error(
                std::string(call) + ": " + cudaGetErrorString(result));
}

/// Makes a device current for one call of the CUDA runtime.
class on_device {
public:
    explicit on_device(size_t device) {
        require(cudaGetDevice(&before_), "cudaGetDevice");
        require(cudaSetDevice(static_cast<int>(device)), "cudaSetDevice");
    }
    on_device(const on_device &) = delete;
    on_device &operator=(const on_device &) = delete;
    ~on_device() { cudaSetDevice(before_); }

private:
    int before_ = 0;
};

void *allocate(size_t bytes, size_t device) {
    const on_device current(device);
    void *pointer = nullptr;
    // An address even for a tensor without elements.
    require(cudaMalloc(&pointer, bytes == 0 ? 1 : bytes), "cudaMalloc");
    return pointer;
}

void deallocate(void *pointer, size_t device) {
    const on_device current(device);
    cudaFree(pointer);
}

/// Waits for what other streams do: the copies below are in no stream's order.
void copy(void *to, const void *from, size_t bytes, size_t device) {
    const on_device current(device);
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

[[maybe_unused]] const bool gpu_registered = register_backend(engine::kind::gpu,
        {allocate, deallocate, copy, copy, gpu::backend.kernels});

} // namespace

} // namespace gradnn::test
