// The device, its memory, streams and errors.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <cuda_runtime_api.h>

#include "state.hpp"

namespace gradnn::fake_cuda {

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
std::atomic<bool> captured_elsewhere {false};
std::atomic<int> driver_version {CUDART_VERSION};

std::mutex &event_mutex() {
    static std::mutex mutex;
    return mutex;
}

std::vector<event> &events() {
    static std::vector<event> all;
    return all;
}

/// Blocks of memory by their addresses. Addresses that are none of these belong to
/// tensors that a test has made up: nothing is read or written there.
struct heap {
    std::mutex mutex;
    std::map<const std::byte *, size_t> blocks;
    size_t used = 0;

    bool holds(const void *pointer, size_t bytes) {
        const auto *start = static_cast<const std::byte *>(pointer);
        const std::lock_guard lock(mutex);
        auto after = blocks.upper_bound(start);
        if (after == blocks.begin()) return false;
        --after;
        return start + bytes <= after->first + after->second;
    }
};

heap &memory() {
    static auto *all = new heap; // destroyed never: freed from at exit
    return *all;
}

cudaError_t allocate(void **pointer, size_t bytes) {
    heap &all = memory();
    const std::lock_guard lock(all.mutex);
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    constexpr size_t alignment = 256;
    const size_t whole = (bytes + alignment - 1) / alignment * alignment;
    if (whole < bytes || whole > properties().totalGlobalMem - all.used)
        return keep(cudaErrorMemoryAllocation);
    void *block = std::aligned_alloc(alignment, whole);
    if (block == nullptr) return keep(cudaErrorMemoryAllocation);
    all.blocks[static_cast<const std::byte *>(block)] = whole;
    all.used += whole;
    *pointer = block;
    return cudaSuccess;
}

cudaError_t release(void *pointer) {
    if (pointer == nullptr) return cudaSuccess;
    heap &all = memory();
    const std::lock_guard lock(all.mutex);
    const auto found = all.blocks.find(static_cast<std::byte *>(pointer));
    if (found == all.blocks.end()) return keep(cudaErrorInvalidValue);
    all.used -= found->second;
    all.blocks.erase(found);
    std::free(pointer);
    return cudaSuccess;
}

void note_bytes(event::kind what, size_t bytes) {
    event happened;
    happened.what = what;
    happened.bytes = bytes;
    note(std::move(happened));
}

/// Between the host and memory that was allocated; what kernels would have
/// written is nowhere, and copying it is noted alone.
cudaError_t transfer(
        void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    heap &all = memory();
    if (kind == cudaMemcpyDeviceToDevice) {
        note_bytes(event::kind::copy, bytes);
        return cudaSuccess;
    }
    if ((kind == cudaMemcpyHostToDevice && !all.holds(to, bytes))
            || (kind == cudaMemcpyDeviceToHost && !all.holds(from, bytes)))
        return keep(cudaErrorInvalidValue);
    if (kind == cudaMemcpyHostToDevice) {
        event happened;
        happened.what = event::kind::upload;
        happened.bytes = bytes;
        happened.digest = digest_of(from, bytes);
        note(std::move(happened));
    }
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}

} // namespace

void note(event happened) {
    const std::lock_guard lock(event_mutex());
    events().push_back(std::move(happened));
}

std::vector<event> take_events() {
    const std::lock_guard lock(event_mutex());
    return std::exchange(events(), {});
}

uint64_t digest_of(const void *data, size_t bytes) {
    const auto *each = static_cast<const unsigned char *>(data);
    uint64_t digest = 0xcbf29ce484222325U;
    for (size_t index = 0; index < bytes; ++index)
        digest = (digest ^ each[index]) * 0x100000001b3U;
    return digest;
}

void set_capture_elsewhere(bool captured) {
    captured_elsewhere = captured;
}

void set_driver_version(int version) {
    driver_version = version;
}

bool is_unsafe_here() {
    return captured_elsewhere && capture_mode != cudaStreamCaptureModeRelaxed;
}

cudaError_t keep(cudaError_t result) {
    if (result != cudaSuccess) last_error = result;
    return result;
}

} // namespace gradnn::fake_cuda

using namespace gradnn::fake_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return keep(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *found, int device) {
    if (device != 0) return keep(cudaErrorInvalidDevice);
    *found = properties();
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(
        int *value, cudaDeviceAttr which, int device) {
    if (device != 0) return keep(cudaErrorInvalidDevice);
    const cudaDeviceProp &all = properties();
    switch (which) {
        case cudaDevAttrMultiProcessorCount:
            *value = all.multiProcessorCount;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = static_cast<int>(all.sharedMemPerMultiprocessor);
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(all.sharedMemPerBlockOptin);
            return cudaSuccess;
        case cudaDevAttrReservedSharedMemoryPerBlock:
            *value = static_cast<int>(all.reservedSharedMemPerBlock);
            return cudaSuccess;
        default: return keep(cudaErrorNotSupported); // to be added here
    }
}
cudaError_t cudaDeviceSynchronize() {
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = gradnn::fake_cuda::driver_version;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetLastError() {
    return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
    return last_error;
}
const char *cudaGetErrorName(cudaError_t result) {
    switch (result) {
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration:
            return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDeviceFunction:
            return "cudaErrorInvalidDeviceFunction";
        case cudaErrorNoKernelImageForDevice:
            return "cudaErrorNoKernelImageForDevice";
        case cudaErrorLaunchOutOfResources:
            return "cudaErrorLaunchOutOfResources";
        case cudaErrorNotSupported: return "cudaErrorNotSupported";
        default: return "an error";
    }
}
const char *cudaGetErrorString(cudaError_t) {
    return "the stand-in for the CUDA runtime (tests/fake_cuda) refuses it";
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    return allocate(pointer, bytes);
}
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t) {
    return allocate(pointer, bytes);
}
cudaError_t cudaFree(void *pointer) {
    return release(pointer);
}
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t) {
    return release(pointer);
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *all) {
    heap &blocks = memory();
    const std::lock_guard lock(blocks.mutex);
    *all = properties().totalGlobalMem;
    *available = *all - blocks.used;
    return cudaSuccess;
}
cudaError_t cudaMemcpy(
        void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    return transfer(to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
        cudaMemcpyKind kind, cudaStream_t) {
    return transfer(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *, int, size_t bytes) {
    note_bytes(event::kind::fill, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *, int, size_t bytes, cudaStream_t) {
    note_bytes(event::kind::fill, bytes);
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(
        cudaPointerAttributes *attributes, const void *pointer) {
    *attributes = {};
    attributes->type = memory().holds(pointer, 1) ? cudaMemoryTypeDevice
                                                  : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    *stream = new_handle<cudaStream_t>();
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t, int *device) {
    *device = 0;
    return cudaSuccess;
}
#endif
cudaError_t cudaStreamIsCapturing(
        cudaStream_t, cudaStreamCaptureStatus *state) {
    *state = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
    std::swap(*mode, capture_mode);
    return cudaSuccess;
}

// Captures are refused.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    return keep(cudaErrorNotSupported);
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *) {
    return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphInstantiate(
        cudaGraphExec_t *, cudaGraph_t, unsigned long long) {
    return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t *, size_t *) {
    return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
    return keep(cudaErrorNotSupported);
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
    return cudaSuccess;
}

} // extern "C"
