// A kernel compiled for the problem that it is to compute: found in memory or on the
// disk, or compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/runtime/launch.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu::jit {

/// Device code that the library carries as text, to be compiled at run time.
struct source_file {
    const char *path; ///< below src: "gpu/device/elements.cuh"
    const char *text;
};

/// What gradnn_embed (cmake/embed.cmake) was given, and a digest of it. Generated.
std::span<const source_file> embedded_sources();
extern const char *const digest_of_sources;

/// The header that a request's specification is given as.
constexpr std::string_view specification_name = "specification.hpp";

struct kernel_request {
    /// An embedded source by its path below src
    /// ("gpu/convolution/sliding/data.cuh"), or specification_name: the
    /// specification is the whole program.
    std::string_view source;
    /// The text of the header "specification.hpp", which the source includes.
    std::string specification;
    /// The name of the __global__ function, which is extern "C".
    const char *entry = nullptr;
};

/// What NVRTC is asked to compile, where find_kernel_compiler (gpu/backend.hpp) found it.
struct compilation : kernel_request {
    int architecture = 0; ///< 90 for compute capability 9.0
    /// A folder that sources and code are written to, with line numbers, for debuggers
    /// and profilers; or empty.
    std::string dumped_to;
    /// "sm_90", or "compute_90" where NVRTC does not know the architecture: the
    /// newest one that it knows, as PTX, which the driver compiles. Empty where
    /// it knows none that runs there.
    std::string target() const;
    std::vector<std::string> options() const;
    /// A cubin, or PTX with its zero at the end. Thread-safe. Throws gradnn::error:
    /// unimplemented, with what the compiler says, where it fails, and
    /// invalid_arguments for a source that is not embedded.
    std::string code() const;
};

/// Stays loaded for the life of the process.
struct compiled_kernel {
    /// A cudaKernel_t. CUDA's functions take it where they take the address of
    /// a __global__ function, on every device of the architecture.
    const void *function = nullptr;
    cudaFuncAttributes attributes {};
    std::string backend = {}; ///< "CUDA (from the disk in 0.6 ms)"
};

/// A kernel and its launch.
struct kernel_launch {
    kernel_request request;
    int64_t grid = 0;
    int threads = 0;
    size_t shared_bytes = 0;
    std::shared_ptr<const compiled_kernel> kernel = nullptr; ///< once loaded

    /// As gpu::launch_early. The arguments have the types of the kernel's parameters:
    /// nothing converts them.
    template <typename... Arguments>
    void operator()(const char *name, const launch_stream &stream,
            Arguments... arguments) const {
        void *pointers[] = {static_cast<void *>(&arguments)...};
        const early_launch launch(grid, threads, shared_bytes, stream);
        check(cudaLaunchKernelExC(&launch, kernel->function, pointers), name);
    }
};

/// Loads the kernel for options.device. Returns why there is none, or an empty text.
/// Refuses where there is no NVRTC, or it does not compile the source, for which all
/// later requests are refused too. Throws gradnn::error out_of_memory where memory ran
/// out, and invalid_arguments for a source that is not embedded. Does not ask
/// options.specialise: that is for the maker of a plan, which may have another kernel.
/// Threads that ask for the same kernel at once wait for one of them to compile it; other
/// kernels are compiled beside it. Disturbs no capture of a stream.
std::string load(kernel_launch &launch, const detail::compile_options &options);

/// Loads one kernel after the other until one spills no registers. Returns the number of
/// the one that spills least; nothing, and the reason in `refusal`, where the first is refused.
std::optional<size_t> load_without_spills(std::span<kernel_launch>,
        const detail::compile_options &, std::string &refusal);

/// Forgets all kernels, failures too, as a new process would: for tests, which load none
/// meanwhile.
void forget_kernels();

} // namespace gradnn::gpu::jit
