// cuDNN, loaded when the first convolution needs it.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include <cuda_runtime_api.h>

#include "gpu/runtime/device.hpp"

struct cudnnContext;

namespace gradnn::gpu::cudnn {

/// What cudnnHandle_t points at.
using library_handle = ::cudnnContext *;

struct loaded_library {
    size_t version = 0; ///< 91900 for cuDNN 9.19.0; 0 where it cannot be loaded
    std::string missing = {}; ///< why it is 0, and what to install
};
/// Loaded by the first call: the file that GRADNN_CUDNN names (or libcudnn.so.9 in the
/// folder that it names), else what the loader finds as libcudnn.so.9.
const loaded_library &library();

/// "9.19.0".
std::string version_text();

/// A handle bound to a stream, for one thread until the end of the scope. It
/// comes from a pool of the device's and goes back there, so that executions
/// make none but where more run at once than ever before: compile has made the
/// first. The device must be current.
class borrowed_handle {
public:
    borrowed_handle(int device, cudaStream_t stream);
    borrowed_handle(const borrowed_handle &) = delete;
    borrowed_handle &operator=(const borrowed_handle &) = delete;
    ~borrowed_handle();

    library_handle get() const { return handle_; }

private:
    const int device_;
    const cudaStream_t stream_;
    library_handle handle_ = nullptr;
};

/// The handle that plans of a device are made with, for one thread at a time, and the
/// device made current until the end of the scope. Who binds the handle to another stream
/// binds it to the legacy default stream again.
class compile_handle {
public:
    explicit compile_handle(int device);

    library_handle get() const { return handle_.get(); }

private:
    const allocation_guard current_;
    const std::unique_lock<std::mutex> lock_;
    const borrowed_handle handle_;
};

/// Throws gradnn::error for a cuDNN status other than success: out_of_memory
/// where memory ran out, runtime_error otherwise; with the call and cuDNN's own
/// message.
void check_status(int status, const char *call);

} // namespace gradnn::gpu::cudnn
