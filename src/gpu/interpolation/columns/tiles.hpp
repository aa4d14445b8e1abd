// The tiles of a columns kernel, decided at compile: which columns and channels a
// warp takes, and how many planes side by side.
//
// The fewest tiles that a warp holds, of equal width. A warp that holds several
// rows takes as many planes as give it the most work for its instructions.
#pragma once

#include <algorithm>
#include <vector>

#include "gpu/interpolation/columns/kernel.cuh"
#include "gpu/interpolation/walk_plan.hpp"

namespace gradnn::gpu::interpolation::columns {

/// What a kernel holds, at run time: see kernel_kind.
struct kind_limits {
    int64_t bytes = 0; ///< of an element
    int64_t vector = 1;
    int64_t words = 0;
    int64_t outputs = 0;
    int64_t taps = 0;
    int64_t sure = 0;
    int64_t side = 1;
    bool dense = false;
    bool reduces = false;
    bool split = false;
    int64_t slots = 0; ///< rows in flight in shared memory
    int64_t slot_bytes = 0;
    int64_t depths = 1; ///< planes of diff_src that a run has at once
};

template <typename Kind, bool volume>
constexpr kind_limits limits_of() {
    return {Kind::bytes, Kind::vector, Kind::words, Kind::outputs, Kind::taps,
            Kind::sure, Kind::side, Kind::dense, Kind::reduces, Kind::split,
            Kind::copies ? Kind::template ahead<
                                   volume> * Kind::template planes<volume>
                         : 0,
            Kind::slot_bytes, Kind::template depths<volume>};
}

/// The channels of a pixel, and how many of them a tile takes; 1 in NCX.
struct channel_block {
    int64_t count = 1;
    int64_t block = 1;
};

/// The columns of diff_dst that a tile's source columns receive.
struct column_tile {
    int64_t first_column = 0;
    int64_t columns = 0;
    int64_t begin = 0; ///< a multiple of the word
    int64_t origin = 0; ///< the column at the lead of the line
    int64_t channel = 0; ///< the first
    int64_t outputs = 0;
    int64_t words = 0;
};

/// Whether the taps of every column fit, with those that must be there.
inline bool holds_taps(const kind_limits &limits, const detail::axis_map &map) {
    if (limits.taps == 0 || limits.taps == 8) return true;
    if (map.max_count > limits.taps) return false;
    for (int64_t j = 0; j < map.src; ++j) {
        const auto column = static_cast<size_t>(j);
        const int64_t first = map.first(column);
        const int64_t count = map.count(column);
        // Beyond an end of the row there are two places that stay 0.
        if (count < limits.sure
                && (count == 0 || (first != 0 && first + count != map.dst)))
            return false;
    }
    return true;
}

inline std::vector<column_tile> cut_columns(const detail::axis_map &map,
        int64_t width, const kind_limits &limits,
        const channel_block &channels) {
    const int64_t vector = limits.vector;
    const bool fours = limits.taps == 0 || limits.taps == 8;
    std::vector<column_tile> tiles;
    for (int64_t begin_at = 0; begin_at < map.src; begin_at += width) {
        // All of one width: the last overlaps, and both write the same bits.
        const int64_t at
                = std::max<int64_t>(std::min(begin_at, map.src - width), 0);
        const int64_t end = std::min(at + width, map.src);
        dst_range span = span_of(map, at, end);
        // A tile without taps reads a word that it does not use.
        if (span.end == 0) span.end = 1;
        const int64_t begin = span.first / vector * vector;
        // In fours, windows of all tiles begin at the same remainders.
        const int64_t origin = fours ? begin / 4 * 4 : begin;
        for (int64_t c = 0; c < channels.count; c += channels.block)
            tiles.push_back({at, end - at, begin, origin,
                    std::min(c, channels.count - channels.block),
                    (end - at) * channels.block,
                    ceil_div((span.end - begin) * channels.block, vector)});
    }
    return tiles;
}

/// No tiles where a column has more taps than a warp has columns.
inline std::vector<column_tile> cut_columns_to_fit(const kind_limits &limits,
        const detail::axis_map &map, const channel_block &channels) {
    const int64_t most_columns = 32 * limits.outputs / channels.block;
    if (most_columns == 0) return {};
    const int64_t most_words = 32 * limits.words;
    int64_t count = std::max(ceil_div(map.src, most_columns),
            map.dst * channels.block / (most_words * limits.vector));
    count = std::clamp<int64_t>(count, 1, map.src);
    while (true) {
        const int64_t width
                = ceil_div(ceil_div(map.src, count), limits.side) * limits.side;
        auto tiles = cut_columns(map, width, limits, channels);
        const bool fits = width <= most_columns
                && std::all_of(tiles.begin(), tiles.end(),
                        [&](const column_tile &tile) {
                            return tile.words <= most_words;
                        });
        if (fits) return tiles;
        if (width <= limits.side) return {};
        count = std::max(count + 1, ceil_div(map.src, width - limits.side));
    }
}

/// Planes side by side: `slots` of them, at even distances of `step` groups.
struct slot_planes {
    int64_t slots = 1;
    int64_t step = 1;
    int64_t last = 1; ///< groups from the last slot's first one to the end
    int64_t walked = 1; ///< groups that a slot walks over
};

inline slot_planes choose_slots(const kind_limits &limits,
        const column_tile &tile, const walk_description &walk) {
    const walk_shape &shape = walk.shape;
    const int64_t units = ceil_div(tile.outputs, limits.side);
    const int64_t by_outputs = 32 * (limits.outputs / limits.side) / units;
    int64_t most = std::min(32 * limits.words / tile.words, by_outputs);
    // A walk's offsets stay small (cut_runs), and those of a slot below 2^31.
    const int64_t pitch = std::max<int64_t>(
            {shape.dst_group_pitch, shape.src_group_pitch, int64_t {1}});
    most = std::min({most, walk.groups, ((int64_t {1} << 30) - 1) / pitch});
    most = std::max<int64_t>(most, 1);
    int64_t divisor = most;
    while (walk.groups % divisor != 0)
        --divisor;
    // Where no number of neighbouring planes comes out even, each slot has a
    // run of planes, the last of which overlap: both write the same bits.
    if (divisor * 4 >= most * 3 || walk.groups * pitch >= int64_t {1} << 31)
        return {divisor, 1, 1, walk.groups / divisor};
    const int64_t groups = ceil_div(walk.groups, most);
    return {most, groups, groups, groups};
}

} // namespace gradnn::gpu::interpolation::columns
