#include "gpu/runtime/engine.hpp"

#include "base/text.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu/runtime/stopwatch.hpp"
#include "kernel/executable_cache.hpp"

namespace gradnn::gpu {

using detail::text;

gpu_engine::gpu_engine(
        size_t aindex, const cuda_interop::device_allocator &adevice_memory)
    : engine_impl(engine::kind::gpu, aindex, allocator(),
            adevice_memory.allocate != nullptr ? detail::new_cache_owner() : 0),
      device(static_cast<int>(aindex)),
      device_memory(adevice_memory) {}

gpu_engine::~gpu_engine() {
    if (cache_owner != 0) detail::drop_cached(cache_owner);
}

void gpu_engine::while_compiling(const std::function<void()> &build) const {
    build_with(device_memory, build);
}

void gpu_engine::check_allocatable(detail::stream_impl &stream) const {
    as_gpu(stream).refuse_in_capture("allocate workspace");
}

void *gpu_engine::allocate(size_t bytes, detail::stream_impl &stream) const {
    cudaStream_t queue = as_gpu(stream).native;
    if (device_memory.allocate != nullptr
            || !properties_of(device).memory_pools)
        return allocate_device_memory(
                device_memory, device, bytes, queue, "workspace");
    const allocation_guard current(device);
    void *pointer = nullptr;
    check(cudaMallocAsync(&pointer, bytes, queue),
            "workspace (cudaMallocAsync)", bytes);
    return pointer;
}

void gpu_engine::deallocate(void *pointer, detail::stream_impl &stream) const {
    gpu_stream &queue = as_gpu(stream);
    try {
        if (queue.captured) {
            queue.retired.push_back(pointer);
            return;
        }
        const allocation_guard current(device);
        if (device_memory.deallocate != nullptr)
            device_memory.deallocate(
                    pointer, device, queue.native, device_memory.context);
        else if (properties_of(device).memory_pools && !is_capturing(queue))
            ignore(cudaFreeAsync(pointer, queue.native));
        else
            ignore(cudaFree(pointer));
    } catch (...) {
        // The driver is shutting down, and its memory with it.
    }
}

// The caller's functions are called for the legacy default stream.
void *gpu_engine::allocate_tensor(size_t bytes) const {
    return allocate_for_all_streams(
            device_memory, device, bytes, nullptr, "a tensor");
}

void gpu_engine::deallocate_tensor(void *pointer) const noexcept {
    free_of_all_streams(device_memory, device, pointer, nullptr);
}

std::string gpu_engine::check_pointer(const void *pointer) const {
    const device_guard current(device);
    cudaPointerAttributes attributes {};
    const cudaError_t result = cudaPointerGetAttributes(&attributes, pointer);
    if (result != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return text("its data pointer is unknown to CUDA: ",
                cudaGetErrorString(result));
    }
    if (attributes.type == cudaMemoryTypeManaged) return {};
    if (attributes.type == cudaMemoryTypeDevice)
        return attributes.device == device
                ? std::string()
                : text("its data is memory of GPU ", attributes.device,
                        "; the engine is GPU ", device);
    return text("its data is host memory; the engine is GPU ", device,
            " and needs memory of that device");
}

namespace {

launch_stream stream_of(int device, std::optional<cudaStream_t> callers) {
    const bool early = can_start_early(device);
    if (!callers) {
        const device_guard current(device);
        callers = new_stream();
    }
    return {*callers, device, early};
}

/// By CUDA events around the steps.
struct event_clock final : detail::step_clock {
    event_clock(const launch_stream &of, size_t count)
        : stream(of), events(count) {}

    void mark() override {
        const device_guard current(stream.device);
        events[marks++].record(stream);
    }

    std::vector<double> milliseconds() override {
        const allocation_guard current(stream.device);
        std::vector<double> times;
        for (size_t index = 1; index < marks; ++index)
            times.push_back(static_cast<double>(
                    events[index].milliseconds_since(events[index - 1])));
        return times;
    }

    const launch_stream stream;
    std::vector<timed_event> events;
    size_t marks = 0;
};

} // namespace

gpu_stream::gpu_stream(std::shared_ptr<const detail::engine_impl> aengine,
        std::optional<cudaStream_t> callers)
    : stream_impl(std::move(aengine)),
      launch_stream(stream_of(static_cast<int>(engine->index), callers)),
      owned(!callers) {}

gpu_stream::~gpu_stream() {
    captured = false;
    if (spare_ != nullptr) retired.push_back(spare_);
    for (void *pointer : retired)
        engine->deallocate(pointer, *this);
    release_workspace();
    if (!owned) return;
    try {
        const device_guard current(device);
        ignore(cudaStreamDestroy(native));
    } catch (...) {
        // As in deallocate.
    }
}

void gpu_stream::wait() {
    const device_guard current(device);
    refuse_in_capture("wait");
    check(cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

bool is_capturing(cudaStream_t stream) {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &state), "cudaStreamIsCapturing");
    return state != cudaStreamCaptureStatusNone;
}

std::unique_ptr<detail::step_clock> gpu_stream::make_step_clock(size_t steps) {
    if (is_capturing(native)) return nullptr;
    const device_guard current(device);
    return std::make_unique<event_clock>(*this, steps + 1);
}

std::byte *gpu_stream::spare(size_t bytes) {
    if (bytes > spare_bytes_) {
        refuse_in_capture("allocate memory for data at odd addresses");
        if (spare_ != nullptr) engine->deallocate(spare_, *this);
        spare_ = nullptr;
        spare_bytes_ = 0;
        spare_ = engine->allocate(bytes, *this);
        spare_bytes_ = bytes;
    }
    return static_cast<std::byte *>(spare_);
}

void gpu_stream::refuse_in_capture(const char *what) const {
    if (is_capturing(native))
        throw error(status::invalid_arguments,
                text("the stream is being captured and cannot ", what,
                        " now; execute once on it before the capture"));
}

} // namespace gradnn::gpu
