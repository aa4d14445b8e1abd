// cuDNN, loaded when the first convolution wants it.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

#include <cuda_runtime_api.h>

struct cudnnContext;

namespace gradnn::gpu {

/// What cudnnHandle_t points at.
using cudnn_handle = ::cudnnContext *;

/// 91900 for cuDNN 9.19.0; 0 where it cannot be loaded. The first call loads
/// it: the file that the environment variable GRADNN_CUDNN names (or
/// libcudnn.so.9 in the folder that it names), else what the loader finds as
/// libcudnn.so.9.
size_t cudnn_version();

/// "9.19.0".
std::string cudnn_version_text();

/// Why cudnn_version() is 0, and what to install; empty where it is not.
std::string cudnn_missing_reason();

/// A handle bound to a stream, for one thread until the end of the scope. It
/// comes from a pool of the device's and goes back there, so that executions
/// make none but where more run at once than ever before: compile has made the
/// first. The device must be current.
class cudnn_borrowed_handle {
public:
    cudnn_borrowed_handle(int device, cudaStream_t stream);
    cudnn_borrowed_handle(const cudnn_borrowed_handle &) = delete;
    cudnn_borrowed_handle &operator=(const cudnn_borrowed_handle &) = delete;
    ~cudnn_borrowed_handle();

    cudnn_handle get() const { return handle_; }

private:
    const int device_;
    const cudaStream_t stream_;
    cudnn_handle handle_ = nullptr;
};

/// The handle that plans of a device are made with, for one thread at a time.
/// The device must be current. Who binds it to another stream binds it to the
/// legacy default stream again.
class cudnn_compile_handle {
public:
    explicit cudnn_compile_handle(int device);

    cudnn_handle get() const { return handle_->get(); }

private:
    std::unique_lock<std::mutex> lock_;
    std::optional<cudnn_borrowed_handle> handle_;
};

/// Throws gradnn::error for a cuDNN status other than success: out_of_memory
/// where memory ran out, runtime_error otherwise; with the call and cuDNN's own
/// message.
void check_cudnn(int status, const char *call);

} // namespace gradnn::gpu
