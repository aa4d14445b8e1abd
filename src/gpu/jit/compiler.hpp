// NVRTC, CUDA's compiler as a library: loaded when the first kernel needs it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradnn::gpu::jit {

/// Device code that the library carries as text, to be compiled at run time.
struct source_file {
    const char *path; ///< below src: "gpu/device/elements.cuh"
    const char *text;
};

/// What gradnn_embed (cmake/embed.cmake) was given. Generated.
std::span<const source_file> embedded_sources();

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
    bool with_lines = false; ///< for debuggers and profilers
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

} // namespace gradnn::gpu::jit
