// Which outputs feed some neighbouring inputs of an axis. Host arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "axis_map.hpp"

namespace gradnn::gpu::interpolation {

/// first <= index < end, along an axis of diff_dst.
struct dst_range {
    int32_t first = 0;
    int32_t end = 0;
};

/// From the first to the last output that feeds an input from <= i < to; empty
/// where there is none.
inline dst_range span_of(
        const detail::axis_map &map, int64_t from, int64_t to) {
    int64_t first = map.dst;
    int64_t end = 0;
    for (int64_t i = from; i < to; ++i) {
        const auto at = static_cast<size_t>(i);
        if (map.count[at] == 0) continue;
        first = std::min(first, map.first[at]);
        end = std::max(end, map.first[at] + map.count[at]);
    }
    if (end == 0) return {};
    return {static_cast<int32_t>(first), static_cast<int32_t>(end)};
}

/// Of `each` neighbouring inputs at a time.
inline std::vector<dst_range> spans_of(
        const detail::axis_map &map, int64_t each) {
    std::vector<dst_range> spans;
    for (int64_t from = 0; from < map.src; from += each)
        spans.push_back(span_of(map, from, std::min(from + each, map.src)));
    return spans;
}

} // namespace gradnn::gpu::interpolation
