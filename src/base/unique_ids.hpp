// Ids that are unique in the process, so that log lines and files can be
// joined.
#pragma once

#include <atomic>
#include <cstddef>

namespace gradnn::detail {

/// The first of `count` ids of partitions that no one else has.
inline size_t new_partition_ids(size_t count) {
    static std::atomic<size_t> next {0};
    return next.fetch_add(count, std::memory_order_relaxed);
}

/// An id of a compiled partition.
inline size_t new_compiled_id() {
    static std::atomic<size_t> next {0};
    return next.fetch_add(1, std::memory_order_relaxed);
}

} // namespace gradnn::detail
