#include "gpu/runtime/engine.hpp"

#include <gradnn/status.hpp>

#include "cache.hpp"
#include "gpu/backend.hpp"
#include "gpu/convolution/cudnn/library.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"
#include "text.hpp"

namespace gradnn::gpu {

using detail::text;

gpu_engine::gpu_engine(size_t aindex, const allocator &host_memory,
        const cuda_interop::device_allocator &adevice_memory)
    : engine_impl(engine::kind::gpu, aindex, host_memory,
            adevice_memory.allocate != nullptr ? detail::new_cache_owner() : 0),
      device(static_cast<int>(aindex)),
      device_memory(adevice_memory) {}

gpu_engine::~gpu_engine() {
    if (cache_owner != 0) detail::drop_cached(cache_owner);
}

void gpu_engine::while_compiling(const std::function<void()> &build) const {
    const allocator_scope memory_of_tables(device_memory);
    build();
}

void gpu_engine::check_allocatable(detail::stream_impl &stream) const {
    as_gpu(stream).refuse_in_capture("allocate workspace");
}

void *gpu_engine::allocate(size_t bytes, detail::stream_impl &stream) const {
    cudaStream_t queue = as_gpu(stream).handle;
    if (device_memory.allocate != nullptr
            || !properties_of(device).memory_pools)
        return allocate_device_memory(
                device_memory, device, bytes, queue, "workspace");
    const allocation_guard current(device);
    void *pointer = nullptr;
    check_allocation(cudaMallocAsync(&pointer, bytes, queue),
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
                    pointer, device, queue.handle, device_memory.context);
        else if (properties_of(device).memory_pools && !queue.is_capturing())
            ignore(cudaFreeAsync(pointer, queue.handle));
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
    switch (attributes.type) {
        case cudaMemoryTypeManaged: return {};
        case cudaMemoryTypeDevice:
            if (attributes.device == device) return {};
            return text("its data is memory of GPU ", attributes.device,
                    "; the engine is GPU ", device);
        default: break;
    }
    return text("its data is host memory; the engine is GPU ", device,
            " and wants memory of that device");
}

bool gpu_engine::early_starts() const {
    std::call_once(early_starts_asked_,
            [this] { early_starts_ = can_start_early(device); });
    return early_starts_;
}

namespace {

const gpu_engine &gpu_engine_behind(const detail::engine_impl &engine) {
    return static_cast<const gpu_engine &>(engine);
}

} // namespace

gpu_stream::gpu_stream(std::shared_ptr<const detail::engine_impl> aengine)
    : stream_impl(std::move(aengine)),
      device(static_cast<int>(engine->index)),
      handle([this] {
          const device_guard current(device);
          cudaStream_t made = nullptr;
          check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
          return made;
      }()),
      owned(true),
      early_starts(gpu_engine_behind(*engine).early_starts()) {}

gpu_stream::gpu_stream(std::shared_ptr<const detail::engine_impl> aengine,
        cudaStream_t callers)
    : stream_impl(std::move(aengine)),
      device(static_cast<int>(engine->index)),
      handle(callers),
      owned(false),
      early_starts(gpu_engine_behind(*engine).early_starts()) {}

gpu_stream::~gpu_stream() {
    captured = false;
    if (spare_ != nullptr) retired.push_back(spare_);
    for (void *pointer : retired)
        engine->deallocate(pointer, *this);
    release_workspace();
    if (!owned) return;
    try {
        const device_guard current(device);
        ignore(cudaStreamDestroy(handle));
    } catch (...) {
        // As in deallocate.
    }
}

void gpu_stream::wait() {
    const device_guard current(device);
    refuse_in_capture("wait");
    check(cudaStreamSynchronize(handle), "cudaStreamSynchronize");
}

bool gpu_stream::is_capturing() const {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(handle, &state), "cudaStreamIsCapturing");
    return state != cudaStreamCaptureStatusNone;
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
    if (is_capturing())
        throw error(status::invalid_arguments,
                text("the stream is being captured and cannot ", what,
                        " now; execute once on it before the capture"));
}

void begin_launches(detail::stream_impl &stream) {
    gpu_stream &queue = as_gpu(stream);
    if (!queue.captured) queue.captured = queue.is_capturing();
}

size_t usable_devices() noexcept {
    return static_cast<size_t>(device_count());
}

std::string unavailable_reason() {
    if (device_count() != 0) return {};
    return text("no GPU can be used: ", no_device_reason());
}

namespace {

void check_index(size_t index) {
    if (usable_devices() == 0)
        throw error(status::unimplemented,
                text("engine: gpu index ", index, ": ", unavailable_reason()));
    if (index >= usable_devices())
        throw error(status::invalid_arguments,
                text("engine: gpu index ", index, "; there ",
                        usable_devices() == 1
                                ? "is 1 GPU"
                                : text("are ", usable_devices(), " GPUs"),
                        ", counted from 0"));
}

/// Refuses a CUDA stream of another device.
void check_device_of(cudaStream_t native, int device) {
#if CUDART_VERSION >= 12080
    // A null stream is the legacy default stream of whichever device is
    // current, which execute makes the engine's.
    if (native == nullptr || native == cudaStreamLegacy
            || native == cudaStreamPerThread)
        return;
    // While a stream is captured it may not be asked: that would end the capture.
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(native, &capture), "cudaStreamIsCapturing");
    if (capture != cudaStreamCaptureStatusNone) return;
    int found = device;
    check(cudaStreamGetDevice(native, &found), "cudaStreamGetDevice");
    if (found != device)
        throw error(status::invalid_arguments,
                text("the CUDA stream is of GPU ", found,
                        "; the engine is GPU ", device));
#else
    static_cast<void>(native);
    static_cast<void>(device);
#endif
}

const detail::engine_impl &gpu_engine_of(const engine &aengine) {
    if (!aengine || aengine.get_kind() != engine::kind::gpu)
        throw error(status::invalid_arguments,
                "cuda_interop: wants a GPU engine, given another");
    return *detail::access::impl(aengine);
}

} // namespace

std::shared_ptr<const detail::engine_impl> make_engine(
        size_t index, const allocator &alloc) {
    check_index(index);
    if (alloc.get_host_allocate() != nullptr)
        throw error(status::invalid_arguments,
                "engine: a GPU engine is given an allocator of host memory; "
                "cuda_interop::make_engine_with_allocator takes one of device "
                "memory");
    return std::make_shared<gpu_engine>(
            index, alloc, cuda_interop::device_allocator());
}

std::shared_ptr<detail::stream_impl> make_stream(
        std::shared_ptr<const detail::engine_impl> engine) {
    return std::make_shared<gpu_stream>(std::move(engine));
}

std::unique_ptr<detail::stream_impl> make_native_stream(
        std::shared_ptr<const detail::engine_impl> engine, void *native) {
    const auto handle = static_cast<cudaStream_t>(native);
    check_device_of(handle, static_cast<int>(engine->index));
    return std::make_unique<gpu_stream>(std::move(engine), handle);
}

bool is_captured(detail::stream_impl &stream) {
    return as_gpu(stream).captured;
}

} // namespace gradnn::gpu

namespace gradnn::cuda_interop {

using detail::access;
using detail::text;

engine make_engine_with_allocator(size_t index, const device_allocator &alloc) {
    gpu::check_index(index);
    if ((alloc.allocate == nullptr) != (alloc.deallocate == nullptr))
        throw error(status::invalid_arguments,
                "cuda_interop::device_allocator: both functions must be null "
                "or neither");
    return access::make<engine>(std::shared_ptr<const detail::engine_impl>(
            std::make_shared<gpu::gpu_engine>(index, allocator(), alloc)));
}

stream make_stream(const engine &aengine, cuda_stream native) {
    const detail::engine_impl &impl = gpu::gpu_engine_of(aengine);
    gpu::check_device_of(native, static_cast<int>(impl.index));
    return access::make<stream>(std::shared_ptr<detail::stream_impl>(
            std::make_shared<gpu::gpu_stream>(access::impl(aengine), native)));
}

cuda_stream get_native(const stream &astream) {
    static_cast<void>(gpu::gpu_engine_of(astream.get_engine()));
    return gpu::as_gpu(*access::impl(astream)).handle;
}

device_info get_device_info(size_t index) {
    gpu::check_index(index);
    const auto &known = gpu::properties_of(static_cast<int>(index));
    device_info info;
    info.name = known.name;
    info.memory_bytes = known.memory_bytes;
    info.compute_capability_major = known.major;
    info.compute_capability_minor = known.minor;
    info.multiprocessors = known.multiprocessors;
    info.l2_bytes = known.l2_bytes;
    return info;
}

versions get_versions() noexcept {
    versions found;
    gpu::ignore(cudaDriverGetVersion(&found.driver));
    gpu::ignore(cudaRuntimeGetVersion(&found.runtime));
    try {
        found.cudnn = gpu::cudnn::library_version();
        found.cudnn_missing = gpu::cudnn::missing_reason();
    } catch (...) {
        // Out of host memory: the version stays 0.
    }
    return found;
}

} // namespace gradnn::cuda_interop
