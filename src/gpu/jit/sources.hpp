// Device code that the library carries as text, to be compiled at run time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradnn::gpu::jit {

/// The header that a request's specification is given as.
constexpr std::string_view specification_name = "specification.hpp";

struct source_file {
    std::string_view path; ///< below src: "gpu/jit/device.cuh"
    std::string_view text;
};

/// What gradnn_embed (cmake/embed.cmake) was given. Generated.
std::span<const source_file> embedded_sources();

/// The file of that path and all that it includes, each once, itself first; the
/// specification has that header's path. Throws gradnn::error for a path that
/// is not embedded.
std::vector<source_file> with_includes(
        std::string_view path, std::string_view specification);

/// Of a text, for names of files and keys: FNV-1a, 16 hexadecimal digits.
std::string digest_of(std::string_view text);

} // namespace gradnn::gpu::jit
