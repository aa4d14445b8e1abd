// How the CPU's interpolations go by their size: past the caches or not, and by how many
// threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

inline int64_t bytes_of(const detail::tensor_view &view) {
    int64_t bytes = detail::size_of(view.type);
    for (const int64_t dim : view.dims)
        bytes *= dim;
    return bytes;
}

/// Of both tensors.
inline int64_t bytes_of(const detail::interpolation_problem &problem) {
    return bytes_of(problem.diff_dst) + bytes_of(problem.diff_src);
}

/// Whether problems of so many bytes write past the caches.
inline bool writes_past_caches(int64_t bytes) {
    return bytes >= 4 << 20;
}

/// The threads that so many bytes are worth waking.
inline int64_t threads_for(int64_t bytes, int64_t most) {
    constexpr int64_t each = 64 << 10;
    return std::clamp<int64_t>(bytes / each, 1, most);
}

} // namespace gradnn::cpu
