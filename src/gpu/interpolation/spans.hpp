// Which outputs feed some neighbouring inputs of an axis. Host arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/axis_map.hpp"

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
        if (map.count(at) == 0) continue;
        first = std::min(first, map.first(at));
        end = std::max(end, map.first(at) + map.count(at));
    }
    if (end == 0) return {};
    return {static_cast<int32_t>(first), static_cast<int32_t>(end)};
}

/// Weights of every input j at `taps` places from ratio * j - before on, one input
/// after the other; nothing where a tap lies elsewhere, or where a place within the
/// row is none.
template <typename Sum>
std::optional<std::vector<Sum>> weights_of_places(const detail::axis_map &map,
        int64_t ratio, int64_t before, int64_t taps) {
    std::vector<Sum> weights(static_cast<size_t>(map.src * taps), Sum(0));
    for (int64_t j = 0; j < map.src; ++j) {
        const auto input = static_cast<size_t>(j);
        const int64_t begin = ratio * j - before;
        const int64_t from = std::max<int64_t>(begin, 0);
        const int64_t to = std::min(begin + taps, map.dst);
        if (map.first(input) != from || map.count(input) != to - from)
            return {};
        for (int64_t o = from; o < to; ++o)
            weights[static_cast<size_t>(j * taps + o - begin)]
                    = static_cast<Sum>(
                            map.weight(map.offset(input) + o - from));
    }
    return weights;
}

} // namespace gradnn::gpu::interpolation
