// How the library's core reaches the GPU backend. Includes nothing of CUDA:
// a CPU-only build has these functions too (absent.cpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <gradnn/engine.hpp>

#include "kernel/engine_impl.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// GPUs that can be used here; 0 in a CPU-only build and without a driver.
/// Never throws.
size_t usable_devices() noexcept;

/// Why there is no GPU engine: "this build has no GPU engine: ..." or CUDA's
/// own message. Empty where usable_devices() is not 0.
std::string unavailable_reason();

/// The GPU with this index. Throws unimplemented with unavailable_reason()
/// where there is none, invalid_arguments for an index out of range and for an
/// allocator with host functions, which cannot serve device memory.
std::shared_ptr<const detail::engine_impl> make_engine(
        size_t index, const allocator &alloc);

/// A stream of its own on an engine of make_engine.
std::shared_ptr<detail::stream_impl> make_stream(
        std::shared_ptr<const detail::engine_impl> engine);

/// A stream on the caller's cudaStream_t, for one execution with the caller's
/// workspace: cheap to make, and nothing of it outlives it. Throws
/// invalid_arguments for a stream of another device.
std::unique_ptr<detail::stream_impl> make_native_stream(
        std::shared_ptr<const detail::engine_impl> engine, void *native);

/// Whether the stream, of a GPU, was under capture when something was last
/// executed on it: a CUDA graph then refers to what was executed.
bool is_captured(detail::stream_impl &stream);

/// The kernel lists; empty in a CPU-only build.
const detail::kernel_lists &kernels();

/// The libraries that compute convolutions beside gradnn, with their versions: what is
/// measured of these is kept with it. Empty in a CPU-only build.
std::string convolution_libraries();

/// What compiles kernels for their problems: NVRTC's version ("13.0") and file. `missing` says
/// why there is none.
struct kernel_compiler {
    std::string version;
    std::string path;
    std::string missing;
};
kernel_compiler find_kernel_compiler();

/// Whether a profiler of NVIDIA's listens to ranges; false in a CPU-only build.
bool profiler_listens();

/// A range of the calling thread that the profiler shows. Ranges nest; the
/// profiler copies the name.
void begin_range(const char *name);
void end_range();

} // namespace gradnn::gpu
