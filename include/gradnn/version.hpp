// The version of the headers. CMake reads it from here.
#pragma once

namespace gradnn {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

} // namespace gradnn
