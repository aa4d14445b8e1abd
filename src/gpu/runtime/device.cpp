#include "gpu/runtime/device.hpp"

#include <utility>

#include "base/counted_memory.hpp"
#include "base/text.hpp"
#include "gpu/runtime/cuda_check.hpp"

namespace gradnn::gpu {

using detail::text;

device_guard::device_guard(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice");
    changed_ = previous_ != device;
    if (changed_) check(cudaSetDevice(device), "cudaSetDevice");
}

device_guard::~device_guard() {
    if (changed_) ignore(cudaSetDevice(previous_));
}

allocation_guard::allocation_guard(int device) : device_guard(device) {
    check(cudaThreadExchangeStreamCaptureMode(&previous_),
            "cudaThreadExchangeStreamCaptureMode");
}

allocation_guard::~allocation_guard() {
    ignore(cudaThreadExchangeStreamCaptureMode(&previous_));
}

namespace {

/// How many there are, and what CUDA said.
const auto &find_devices() {
    static const auto found = [] {
        int count = 0;
        const cudaError_t result = cudaGetDeviceCount(&count);
        ignore(result);
        return std::pair(result == cudaSuccess ? count : 0, result);
    }();
    return found;
}

device_properties read_properties(int device) {
    cudaDeviceProp read {};
    check(cudaGetDeviceProperties(&read, device), "cudaGetDeviceProperties");
    return {{read.multiProcessorCount,
                    static_cast<int>(read.sharedMemPerBlockOptin),
                    static_cast<int>(read.sharedMemPerMultiprocessor),
                    read.regsPerMultiprocessor,
                    read.maxThreadsPerMultiProcessor},
            {read.name, read.totalGlobalMem, read.major, read.minor,
                    read.multiProcessorCount,
                    static_cast<size_t>(read.l2CacheSize)},
            read.memoryPoolsSupported != 0};
}

thread_local const cuda_interop::device_allocator *current_allocator = nullptr;

/// On which tables are written. Neither the default stream, which would wait for
/// the caller's streams and break a capture that is under way on one of them, nor
/// a new one each time: allocators keep memory by stream. Never destroyed.
cudaStream_t stream_of_tables(int device) {
    constexpr auto make = [](int of) {
        const allocation_guard current(of);
        return new_stream();
    };
    return made_once<make>(static_cast<size_t>(device));
}

} // namespace

size_t device_count() noexcept {
    return static_cast<size_t>(find_devices().first);
}

std::string no_device_reason() {
    const auto &[count, result] = find_devices();
    if (count > 0) return {};
    const char *reason = result == cudaSuccess
            ? "no CUDA-capable device is detected"
            : cudaGetErrorString(result);
    // CUDA calls a driver that is not there an old one.
    int driver = 0;
    if (result != cudaSuccess && cudaDriverGetVersion(&driver) == cudaSuccess
            && driver == 0)
        reason = "no CUDA driver is installed";
    return text("no GPU can be used: ", reason);
}

const device_properties &properties_of(int device) {
    return made_once<read_properties>(static_cast<size_t>(device));
}

cudaStream_t new_stream() {
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
    return made;
}

void build_with(const cuda_interop::device_allocator &memory,
        const std::function<void()> &build) {
    const struct restore {
        const cuda_interop::device_allocator *previous;
        ~restore() { current_allocator = previous; }
    } at_the_end {std::exchange(current_allocator, &memory)};
    build();
}

void *allocate_device_memory(const cuda_interop::device_allocator &memory,
        int device, size_t bytes, cudaStream_t stream, const char *what) {
    const allocation_guard current(device);
    void *pointer = nullptr;
    if (memory.allocate == nullptr) {
        check(cudaMalloc(&pointer, bytes), text(what, " (cudaMalloc)").c_str(),
                bytes);
        return pointer;
    }
    pointer = memory.allocate(bytes, device, stream, memory.context);
    if (pointer == nullptr)
        throw error(status::out_of_memory,
                text("the device allocator of GPU ", device, " could not give ",
                        bytes, " bytes for ", what));
    return pointer;
}

void *allocate_for_all_streams(const cuda_interop::device_allocator &memory,
        int device, size_t bytes, cudaStream_t stream, const char *what) {
    void *const pointer
            = allocate_device_memory(memory, device, bytes, stream, what);
    if (memory.allocate == nullptr) return pointer;
    const allocation_guard current(device);
    const cudaError_t result = cudaStreamSynchronize(stream);
    if (result != cudaSuccess)
        memory.deallocate(pointer, device, stream, memory.context);
    check(result, "cudaStreamSynchronize");
    return pointer;
}

void free_of_all_streams(const cuda_interop::device_allocator &memory,
        int device, void *pointer, cudaStream_t stream) noexcept {
    try {
        const allocation_guard current(device);
        if (memory.deallocate == nullptr) {
            ignore(cudaFree(pointer)); // waits for the device
            return;
        }
        ignore(cudaDeviceSynchronize());
        memory.deallocate(pointer, device, stream, memory.context);
    } catch (...) {
        // The driver is shutting down with the process; so is its memory.
    }
}

device_buffer::device_buffer(int device, size_t bytes) {
    if (bytes == 0) return;
    buffer_owner owner {device, bytes, {}};
    if (current_allocator != nullptr) owner.memory = *current_allocator;
    data_ = {allocate_for_all_streams(
                     owner.memory, device, bytes, owner.stream(), "a table"),
            owner};
    detail::counted_bytes() += static_cast<int64_t>(bytes);
}

cudaStream_t buffer_owner::stream() const {
    return memory.allocate != nullptr ? stream_of_tables(device) : nullptr;
}

void buffer_owner::operator()(void *data) const noexcept {
    detail::counted_bytes() -= static_cast<int64_t>(bytes);
    free_of_all_streams(memory, device, data, stream());
}

device_buffer upload(int device, const void *data, size_t bytes) {
    device_buffer buffer(device, bytes);
    if (bytes == 0) return buffer;
    const allocation_guard current(device);
    cudaStream_t stream = stream_of_tables(device);
    check(cudaMemcpyAsync(
                  buffer.data(), data, bytes, cudaMemcpyHostToDevice, stream),
            "upload of a table (cudaMemcpyAsync)");
    check(cudaStreamSynchronize(stream), "upload of a table");
    return buffer;
}

} // namespace gradnn::gpu
