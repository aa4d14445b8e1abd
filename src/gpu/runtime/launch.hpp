// Launching kernels on a gradnn stream.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <cuda_runtime.h>

#include "gpu/device/rounding.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/engine.hpp"

namespace gradnn::gpu {

/// Where kernels are launched.
struct launch_stream {
    cudaStream_t native;
    int device;
    bool early_starts; ///< can_start_early of the device

    explicit launch_stream(detail::stream_impl &stream)
        : native(as_gpu(stream).handle),
          device(as_gpu(stream).device),
          early_starts(as_gpu(stream).early_starts) {}
    operator cudaStream_t() const { return native; }
};

/// Stands at the head of every plan's execute: makes the stream's device the
/// current one until the end of the scope, and has the CUDA stream.
class launch_scope {
public:
    explicit launch_scope(detail::stream_impl &stream)
        : current_(device_of(stream)), stream_(stream) {
        begin_launches(stream);
    }

    const launch_stream &stream() const { return stream_; }

private:
    device_guard current_;
    launch_stream stream_;
};

/// Whether an address is a multiple of so many bytes.
inline bool is_aligned(const void *pointer, size_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/// Lets the blocks of a kernel have so much dynamic shared memory on the current
/// device, ahead of launches: without asking they have 48 KiB.
inline void allow_shared_bytes(const void *kernel, size_t bytes) {
    check(cudaFuncSetAttribute(kernel,
                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                  static_cast<int>(bytes)),
            "cudaFuncSetAttribute");
}
template <typename... Parameters>
void allow_shared_bytes(void (*kernel)(Parameters...), size_t bytes) {
    allow_shared_bytes(reinterpret_cast<const void *>(kernel), bytes);
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

/// What launch_early does, for a kernel by its address or cudaKernel_t, and the
/// addresses of arguments of its types.
inline void launch_early_by_address(const char *name, const void *kernel,
        launch_size grid, launch_size block, size_t shared_bytes,
        const launch_stream &stream, void **arguments) {
    cudaLaunchAttribute early {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = stream.early_starts ? 1 : 0;
    check(cudaLaunchKernelExC(&config, kernel, arguments), name);
}

/// Launches a kernel; a failed launch becomes gradnn::error with `name`. The
/// device must be current (launch_scope). Arguments are converted to the
/// kernel's parameter types.
template <typename... Parameters, typename... Arguments>
void launch(const char *name, void (*kernel)(Parameters...), launch_size grid,
        launch_size block, size_t shared_bytes, cudaStream_t stream,
        Arguments &&...arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments));
    const auto call = [&](Parameters... parameters) {
        // At least one element, for kernels without parameters.
        void *pointers[] = {static_cast<void *>(&parameters)..., nullptr};
        check(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid,
                      block, pointers, shared_bytes, stream),
                name);
    };
    call(std::forward<Arguments>(arguments)...);
}

/// The same for a kernel that calls wait_for_earlier_work (device/early_start.cuh): it
/// may start before what was submitted ahead of it is done.
template <typename... Parameters, typename... Arguments>
void launch_early(const char *name, void (*kernel)(Parameters...),
        launch_size grid, launch_size block, size_t shared_bytes,
        const launch_stream &stream, Arguments &&...arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments));
    const auto call = [&](Parameters... parameters) {
        void *pointers[] = {static_cast<void *>(&parameters)..., nullptr};
        launch_early_by_address(name, reinterpret_cast<const void *>(kernel),
                grid, block, shared_bytes, stream, pointers);
    };
    call(std::forward<Arguments>(arguments)...);
}

} // namespace gradnn::gpu
