// Launching kernels on a gradnn stream, and plans of launches.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <cuda_runtime.h>

#include "gpu/device/rounding.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/engine.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// Stands at the head of every plan's execute: makes the stream's device the
/// current one until the end of the scope, notes whether the stream is captured, and has
/// the CUDA stream.
class launch_scope {
public:
    explicit launch_scope(detail::stream_impl &stream)
        : stream_(as_gpu(stream)), current_(stream_.device) {
        if (!stream_.captured) stream_.captured = is_capturing(stream_);
    }

    const launch_stream &stream() const { return stream_; }

private:
    gpu_stream &stream_;
    const device_guard current_;
};

/// Whether an address is a multiple of so many bytes.
inline bool is_aligned(const void *pointer, size_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// Lets the blocks of a kernel have so much dynamic shared memory on the current
/// device, ahead of launches: without asking they have 48 KiB.
template <typename Kernel>
void allow_shared_bytes(Kernel *kernel, size_t bytes) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                  static_cast<int>(bytes)),
            "cudaFuncSetAttribute");
}

/// Blocks of a launch, or threads of a block: how many, or those of each axis.
struct launch_size : dim3 {
    template <std::integral Count>
    launch_size(Count count) : dim3(static_cast<unsigned>(count)) {}
    launch_size(const dim3 &of_axes) : dim3(of_axes) {}
};

/// Blocks of so many threads for so many elements, of kernels whose threads go on to
/// further ones.
inline int64_t blocks_for(int64_t elements, int64_t threads) {
    return std::min<int64_t>(ceil_div(elements, threads), 1 << 20);
}

/// A launch that may start before what was submitted ahead of it is done.
struct early_launch : cudaLaunchConfig_t {
    cudaLaunchAttribute early {};

    early_launch(launch_size grid, launch_size block, size_t shared_bytes,
            const launch_stream &stream)
        : cudaLaunchConfig_t {grid, block, shared_bytes, stream, &early,
                stream.early_starts ? 1U : 0U} {
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
    }
    early_launch(const early_launch &) = delete;
};

/// Launches a kernel; a failed launch becomes gradnn::error with `name`. The
/// device must be current (launch_scope). Arguments are converted to the
/// kernel's parameter types.
template <typename... Parameters, typename... Arguments>
void launch(const char *name, void (*kernel)(Parameters...), launch_size grid,
        launch_size block, size_t shared_bytes, cudaStream_t stream,
        Arguments &&...arguments) {
    const cudaLaunchConfig_t launch {
            grid, block, shared_bytes, stream, nullptr, 0};
    check(cudaLaunchKernelEx(
                  &launch, kernel, std::forward<Arguments>(arguments)...),
            name);
}

/// The same for a kernel that calls wait_for_earlier_work (device/early_start.cuh).
template <typename... Parameters, typename... Arguments>
void launch_early(const char *name, void (*kernel)(Parameters...),
        launch_size grid, launch_size block, size_t shared_bytes,
        const launch_stream &stream, Arguments &&...arguments) {
    const early_launch launch(grid, block, shared_bytes, stream);
    check(cudaLaunchKernelEx(
                  &launch, kernel, std::forward<Arguments>(arguments)...),
            name);
}

/// A plan of launches that were chosen when it was made.
class launched_plan final : public detail::plan {
public:
    /// On a stream whose device is current.
    using launches = std::function<void(std::span<void *const> args,
            std::byte *workspace, const launch_stream &)>;

    explicit launched_plan(launches all, size_t workspace_bytes = 0,
            std::string backend = "CUDA")
        : launches_(std::move(all)),
          workspace_bytes_(workspace_bytes),
          backend_(std::move(backend)) {}

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        launches_(args, workspace, scope.stream());
    }
    size_t workspace_bytes() const override { return workspace_bytes_; }
    std::string backend() const override { return backend_; }

private:
    const launches launches_;
    const size_t workspace_bytes_;
    const std::string backend_;
};

} // namespace gradnn::gpu
