// cuDNN, loaded when the first convolution wants it.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "engine_impl.hpp"

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

/// The handle of a GPU stream, made at the first call and bound to the stream
/// for good. The stream's mutex must be held and its device be current.
cudnn_handle cudnn_handle_of(detail::stream_impl &stream);

/// The handle that plans of a device are made with, for one thread at a time.
/// The device must be current.
class cudnn_compile_handle {
public:
    explicit cudnn_compile_handle(int device);

    cudnn_handle get() const { return handle_; }

private:
    std::unique_lock<std::mutex> lock_;
    cudnn_handle handle_ = nullptr;
};

/// Throws gradnn::error for a cuDNN status other than success: out_of_memory
/// where memory ran out, runtime_error otherwise; with the call and cuDNN's own
/// message.
void check_cudnn(int status, const char *call);

} // namespace gradnn::gpu
