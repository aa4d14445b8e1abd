// What the sweep's kernels share: launches of threads that take one element after
// another, and results that are read back.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "gpu/runtime/cuda_check.hpp"

namespace gradnn::sweep {

constexpr unsigned block = 128;
constexpr unsigned most_blocks = 8192;

inline unsigned blocks_for(size_t count) {
    const size_t wanted = (count + block - 1) / block;
    return static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks);
}

/// One result of a kernel, in device memory until it is read.
template <typename Value>
class device_value {
public:
    device_value() {
        gpu::check(cudaMalloc(&data_, sizeof(Value)), "cudaMalloc");
        gpu::check(cudaMemset(data_, 0, sizeof(Value)), "cudaMemset");
    }
    device_value(const device_value &) = delete;
    device_value &operator=(const device_value &) = delete;
    ~device_value() { gpu::ignore(cudaFree(data_)); }

    Value *data() const { return data_; }
    Value read() const {
        Value value;
        gpu::check(cudaMemcpy(&value, data_, sizeof(Value),
                           cudaMemcpyDeviceToHost),
                "cudaMemcpy");
        return value;
    }

private:
    Value *data_ = nullptr;
};

inline __device__ void raise_to(double *most, double value) {
    // Doubles that are not negative are ordered as their bits are.
    atomicMax(reinterpret_cast<unsigned long long *>(most),
            static_cast<unsigned long long>(__double_as_longlong(value)));
}

} // namespace gradnn::sweep
