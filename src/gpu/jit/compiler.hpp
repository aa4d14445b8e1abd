// NVRTC, CUDA's compiler as a library: loaded when the first kernel needs it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradnn::gpu::jit {

/// Device code that the library carries as text, to be compiled at run time.
struct source_file {
    const char *path; ///< below src: "gpu/jit/device.cuh"
    const char *text;
};

/// What gradnn_embed (cmake/embed.cmake) was given. Generated.
std::span<const source_file> embedded_sources();

/// The header that a request's specification is given as.
constexpr std::string_view specification_name = "specification.hpp";

/// Whether NVRTC was found. The first call of these functions looks for it: the file
/// or folder that GRADNN_NVRTC names; else what the process has loaded; else
/// beside the CUDA libraries that it has loaded, as in the wheels of PyTorch and
/// JAX; else what the loader finds; else the toolkit that gradnn was built with.
/// Versions 12 and 13, that of gradnn's CUDA runtime first.
bool available();
/// "13.0"; empty where there is none.
std::string version_text();
/// The file.
std::string library_path();
/// Why available() is false, and what to install.
std::string missing_reason();

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

/// What NVRTC is asked to compile.
struct compilation : kernel_request {
    int architecture = 0; ///< 90 for compute capability 9.0
    bool with_lines = false; ///< for debuggers and profilers
    /// "sm_90", or "compute_90" where NVRTC does not know the architecture: the
    /// newest one that it knows, as PTX, which the driver compiles. Empty where
    /// it knows none that runs there.
    std::string target() const;
    std::vector<std::string> options() const;
};

struct compiled_code {
    std::string code; ///< a cubin, or PTX with its zero at the end
    std::string refusal; ///< what the compiler says where it fails
};

/// Thread-safe. Throws gradnn::error for a source that is not embedded.
compiled_code compile(const compilation &what);

} // namespace gradnn::gpu::jit
