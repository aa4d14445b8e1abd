// What stands behind GPU engines and streams.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <gradnn/cuda.hpp>

#include "kernel/engine_impl.hpp"

namespace gradnn::gpu {

/// A GPU. Workspace and plans' tables come from the caller's device allocator, or
/// else from cudaMallocAsync and cudaMalloc.
struct gpu_engine final : detail::engine_impl {
    explicit gpu_engine(size_t index,
            const cuda_interop::device_allocator &device_memory = {});
    ~gpu_engine() override;

    void while_compiling(const std::function<void()> &build) const override;
    void check_allocatable(detail::stream_impl &stream) const override;
    void *allocate(size_t bytes, detail::stream_impl &stream) const override;
    void deallocate(void *pointer, detail::stream_impl &stream) const override;
    void *allocate_tensor(size_t bytes) const override;
    void deallocate_tensor(void *pointer) const noexcept override;
    std::string check_pointer(const void *pointer) const override;

    const int device;
    const cuda_interop::device_allocator device_memory;
};

/// Where kernels are launched.
struct launch_stream {
    const cudaStream_t native;
    const int device;
    const bool early_starts; ///< can_start_early of the device

    operator cudaStream_t() const { return native; }
};

bool is_capturing(cudaStream_t);

/// A CUDA stream of the caller's, or one of its own.
struct gpu_stream final : detail::stream_impl, launch_stream {
    /// The caller's, which must outlive this object, or a new non-blocking one.
    explicit gpu_stream(std::shared_ptr<const detail::engine_impl> engine,
            std::optional<cudaStream_t> callers = std::nullopt);
    ~gpu_stream() override;

    /// Refuses while the stream is captured, which waiting would break.
    void wait() override;
    /// Of CUDA events; null while the stream is captured.
    std::unique_ptr<detail::step_clock> make_step_clock(size_t steps) override;

    /// At least `bytes` of device memory beside the workspace, at a multiple of
    /// 256, kept until the next call. With the stream's mutex held.
    std::byte *spare(size_t bytes);

    /// Throws where the stream is being captured: `what` cannot be done then.
    void refuse_in_capture(const char *what) const;

    const bool owned;

    /// A CUDA graph may hold the address of the workspace from now on.
    bool captured = false;
    /// Workspaces outgrown after that; freed with the stream.
    std::vector<void *> retired;

private:
    void *spare_ = nullptr;
    size_t spare_bytes_ = 0;
};

/// The GPU parts of a stream that is known to be a GPU's.
inline gpu_stream &as_gpu(detail::stream_impl &stream) {
    return static_cast<gpu_stream &>(stream);
}

} // namespace gradnn::gpu
