// Devices: the current one, their properties, and memory on them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>

#include <gradnn/cuda.hpp>

#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::gpu {

/// Makes a device the calling thread's current one and puts back the one that
/// was, so that the caller never sees a change.
class device_guard {
public:
    explicit device_guard(int device);
    device_guard(const device_guard &) = delete;
    device_guard &operator=(const device_guard &) = delete;
    ~device_guard();

private:
    int previous_ = 0;
    bool changed_ = false;
};

/// The same where memory is allocated, or kernels are loaded (as by asking for their
/// attributes): lets the calling thread do so although another thread may be capturing a
/// stream in CUDA's global capture mode, which would else forbid it.
class allocation_guard : device_guard {
public:
    explicit allocation_guard(int device);
    ~allocation_guard();

private:
    cudaStreamCaptureMode previous_ = cudaStreamCaptureModeRelaxed;
};

struct device_properties : gpu_facts {
    cuda_interop::device_info info;
    bool memory_pools;
};

/// Devices that CUDA sees; 0 without a driver or a GPU. Never throws. Asked
/// once.
size_t device_count() noexcept;

/// Why device_count() is 0, with CUDA's own message; empty where it is not.
std::string no_device_reason();

/// What `make` gives for a device, asked once for each and kept.
template <auto make>
const auto &made_once(size_t device) {
    static std::mutex mutex;
    static std::vector<std::optional<decltype(make(0))>> made(device_count());
    const std::lock_guard lock(mutex);
    auto &entry = made.at(device);
    if (!entry) entry = make(static_cast<int>(device));
    return *entry;
}

/// Read once for each device and kept.
const device_properties &properties_of(int device);

/// A new non-blocking stream of the current device.
cudaStream_t new_stream();

/// Whether a device has programmatic dependent launch and bulk copies, and the library's code
/// there compute capability 9.0's instructions (device/early_start.cuh): not if made of 8.0's.
bool can_start_early(int device);

/// `bytes` for what is named ("a tensor"), given in the order of the stream, of an
/// allocator or, where its functions are null, of cudaMalloc.
void *allocate_device_memory(const cuda_interop::device_allocator &, int device,
        size_t bytes, cudaStream_t stream, const char *what);
/// The same for all streams: it waits for that one.
void *allocate_for_all_streams(const cuda_interop::device_allocator &,
        int device, size_t bytes, cudaStream_t stream, const char *what);
/// Gives such memory back after all that was submitted to the device.
void free_of_all_streams(const cuda_interop::device_allocator &, int device,
        void *pointer, cudaStream_t stream) noexcept;

/// Calls `build`, which makes plans. device_buffers that it makes on the calling thread
/// come from the allocator, of which null functions stand for cudaMalloc and cudaFree:
/// what makes plans need not hand it down to every table.
void build_with(const cuda_interop::device_allocator &memory,
        const std::function<void()> &build);

/// Frees the memory of a device_buffer.
struct buffer_owner {
    int device = 0;
    size_t bytes = 0;
    /// Null functions where the memory is cudaMalloc's. A copy: a plan may
    /// outlive the engine that it was compiled for.
    cuda_interop::device_allocator memory;

    /// Of an allocator's memory, in the order of which it is given.
    cudaStream_t stream() const;
    void operator()(void *data) const noexcept;
};

/// Device memory that a plan fills at compile (tables) and kernels read; of the
/// allocator of the build_with that it is made in. Freed with the object, after every
/// kernel that may still read it.
class device_buffer {
public:
    device_buffer() = default;
    /// `bytes` of a device's memory, not initialised.
    device_buffer(int device, size_t bytes);

    void *data() const { return data_.get(); }
    size_t size_bytes() const { return data_.get_deleter().bytes; }
    template <typename Type>
    const Type *as() const {
        return static_cast<const Type *>(data());
    }

private:
    std::unique_ptr<void, buffer_owner> data_; ///< null: no bytes
};

/// A copy of `bytes` of host memory on a device, there when this returns.
device_buffer upload(int device, const void *data, size_t bytes);

template <typename Type>
requires std::is_trivially_copyable_v<Type> device_buffer upload(
        int device, const std::vector<Type> &values) {
    return upload(device, values.data(), values.size() * sizeof(Type));
}

} // namespace gradnn::gpu
