// The version of the headers, and that of the library. CMake reads it from here.
#pragma once

#include <gradnn/status.hpp>

namespace gradnn {

/// The version of these headers.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

struct version_info {
    int major;
    int minor;
    int patch;
};

/// The version of the library that the program runs with. Never throws.
GRADNN_API version_info version() noexcept;

/// Whether that library serves a program that was compiled with these headers.
/// Before 1.0 the major and minor versions must be equal; from 1.0 on the
/// major versions, and the library's minor version must not be lower.
inline bool version_agrees() noexcept {
    const version_info library = version();
    if (library.major != version_major) return false;
    return version_major == 0 ? library.minor == version_minor
                              : library.minor >= version_minor;
}

} // namespace gradnn
