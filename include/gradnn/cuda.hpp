// CUDA streams, device memory and devices, for GPU engines.
//
// Needs no CUDA header. In a CPU-only build, and on a machine without a driver
// or a GPU, every function here throws unimplemented saying so, except
// get_versions, which never throws.
#pragma once

#include <cstddef>
#include <string>

#include <gradnn/engine.hpp>

/// What cudaStream_t points at.
struct CUstream_st;

namespace gradnn::cuda_interop {

/// The same type as CUDA's cudaStream_t and CUstream.
using cuda_stream = ::CUstream_st *;

/// Allocates `bytes` of the memory of `device` at a multiple of 256, usable on
/// `stream` from then on, or returns null. Called with that device current.
using device_allocate_f = void *(*)(size_t bytes, int device,
        cuda_stream stream, void *context);
/// Frees what a device_allocate_f returned; work that was put on `stream`
/// before may still use it.
using device_deallocate_f = void (*)(
        void *pointer, int device, cuda_stream stream, void *context);

/// Where the memory of a GPU engine comes from: the workspace, where `execute`
/// is not given one, and what compile puts on the device (tables of
/// interpolation, a trial of a doubtful plan). Both functions are null (then
/// cudaMallocAsync and cudaFreeAsync on the stream serve for the workspace,
/// cudaMalloc and cudaFree for the rest) or neither. They may be called from any
/// thread that compiles, executes, destroys a stream or a compiled partition, or
/// changes the cache of compiled partitions.
///
/// Workspaces are allocated and freed on the stream that executes. The memory of
/// compile is allocated on a non-blocking stream of gradnn's own, one a device
/// until the process ends, which `compile` has waited for when it returns; it is
/// freed on that stream after cudaDeviceSynchronize, when the last copy of the
/// compiled partition and the cache have let it go (not while a stream of the
/// device is captured, which that would break). The cache lets go of an
/// engine's with the last copy of the engine and of its streams. `context` must
/// live until then, and until the last compiled partition is destroyed.
struct device_allocator {
    device_allocate_f allocate = nullptr;
    device_deallocate_f deallocate = nullptr;
    /// Handed to both.
    void *context = nullptr;
};

/// A GPU engine whose memory comes from `alloc`. The engine is another than
/// engine(engine::kind::gpu, index): partitions compiled for one run on
/// streams of that one, but the cache does not share them between engines. Throws invalid_arguments for an index out of range or
/// a half-filled allocator.
GRADNN_API engine make_engine_with_allocator(
        size_t index, const device_allocator &alloc);

/// A stream that runs on the caller's CUDA stream, which must be of the
/// engine's device and outlive every copy of the result. Null and the other
/// default streams are allowed. `execute` is asynchronous on it; ordering with
/// other work on the CUDA stream is CUDA's. Throws invalid_arguments for a CPU
/// engine and for a stream of another device.
///
/// The CUDA stream may be under capture when `execute` is called, provided that
/// nothing need be allocated: `execute` is given workspace, or the same partition
/// was executed on this stream before. The CUDA graph refers to the workspace and
/// to the compiled partition: both must outlive it.
GRADNN_API stream make_stream(const engine &aengine, cuda_stream native);

/// The CUDA stream that a stream of a GPU engine runs on: the caller's, or the
/// one that stream(engine) made. Throws invalid_arguments for a CPU stream.
GRADNN_API cuda_stream get_native(const stream &astream);

/// A device as CUDA describes it.
struct device_info {
    std::string name;
    size_t memory_bytes = 0;
    int compute_capability_major = 0;
    int compute_capability_minor = 0;
    int multiprocessors = 0;
    size_t l2_bytes = 0;
};

/// The device with this index. Throws invalid_arguments for an index out of
/// range.
GRADNN_API device_info get_device_info(size_t index);

/// Versions as the libraries give them (13000 is CUDA 13.0); 0 for what is not
/// there. Asking for cuDNN's loads it.
struct versions {
    int driver = 0; ///< the CUDA version that the driver supports
    int runtime = 0; ///< of the CUDA runtime that gradnn was built with
    size_t cudnn = 0; ///< 91900 is cuDNN 9.19.0
    /// Why cuDNN is 0: where it was looked for and what to install.
    std::string cudnn_missing;
};

GRADNN_API versions get_versions() noexcept;

} // namespace gradnn::cuda_interop
