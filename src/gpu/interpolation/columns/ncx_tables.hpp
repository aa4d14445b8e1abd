// How the columns kernel of NCX (ncx.cuh) is applied to a
// problem, decided at compile: the tiles, and where every lane's words, outputs
// and weights lie.
//
// The fewest tiles that a warp holds, of equal width. A warp that holds several
// rows takes as many planes as give it the most work for its instructions.
#pragma once

#include <algorithm>
#include <vector>

#include "gpu/interpolation/columns/ncx.cuh"
#include "gpu/interpolation/walk_plan.hpp"

namespace gradnn::gpu {

/// What a kernel holds, at run time: see ncx_kind.
struct ncx_limits {
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
constexpr ncx_limits limits_of() {
    return {Kind::bytes, Kind::vector, Kind::words, Kind::outputs, Kind::taps,
            Kind::sure, Kind::side, Kind::dense, Kind::reduces, Kind::split,
            Kind::copies ? Kind::template ahead<
                                   volume> * Kind::template planes<volume>
                         : 0,
            Kind::slot_bytes, Kind::template depths<volume>};
}

/// The tables of ncx_shape, on the host.
template <typename Sum>
struct ncx_tables {
    std::vector<ncx_place> words;
    std::vector<ncx_place> outputs;
    std::vector<Sum> weights;
    std::vector<int32_t> row_bytes;
};

/// The channels of a pixel, and how many of them a tile takes; 1 in NCX.
struct ncx_channels {
    int64_t count = 1;
    int64_t block = 1;
};

/// The columns of diff_dst that a tile's source columns receive.
struct ncx_tile {
    int64_t first_column = 0;
    int64_t columns = 0;
    int64_t begin = 0; ///< a multiple of the word
    int64_t origin = 0; ///< the column at the lead of the line
    int64_t channel = 0; ///< the first
    int64_t outputs = 0;
    int64_t words = 0;
};

/// Whether the taps of every column fit, with those that must be there.
inline bool holds_taps(const ncx_limits &limits, const detail::axis_map &map) {
    if (limits.taps == 0 || limits.taps == 8) return true;
    if (map.max_count > limits.taps) return false;
    for (int64_t j = 0; j < map.src; ++j) {
        const auto column = static_cast<size_t>(j);
        const int64_t first = map.first[column];
        const int64_t count = map.count[column];
        // Beyond an end of the row there are two places that stay 0.
        if (count < limits.sure
                && (count == 0 || (first != 0 && first + count != map.dst)))
            return false;
    }
    return true;
}

inline std::vector<ncx_tile> cut_columns(const detail::axis_map &map,
        int64_t width, const ncx_limits &limits, const ncx_channels &channels) {
    const int64_t vector = limits.vector;
    const bool fours = limits.taps == 0 || limits.taps == 8;
    std::vector<ncx_tile> tiles;
    for (int64_t begin_at = 0; begin_at < map.src; begin_at += width) {
        // All of one width: the last overlaps, and both write the same bits.
        const int64_t at
                = std::max<int64_t>(std::min(begin_at, map.src - width), 0);
        const int64_t end = std::min(at + width, map.src);
        int64_t first = map.dst;
        int64_t last = 0;
        for (int64_t j = at; j < end; ++j) {
            const auto column = static_cast<size_t>(j);
            if (map.count[column] == 0) continue;
            first = std::min(first, map.first[column]);
            last = std::max(last, map.first[column] + map.count[column]);
        }
        // A tile without taps reads a word that it does not use.
        if (last == 0) first = 0, last = 1;
        const int64_t begin = first / vector * vector;
        // In fours, windows of all tiles begin at the same remainders.
        const int64_t origin = fours ? begin / 4 * 4 : begin;
        for (int64_t c = 0; c < channels.count; c += channels.block)
            tiles.push_back({at, end - at, begin, origin,
                    std::min(c, channels.count - channels.block),
                    (end - at) * channels.block,
                    ceil_div((last - begin) * channels.block, vector)});
    }
    return tiles;
}

/// No tiles where a column has more taps than a warp has columns.
inline std::vector<ncx_tile> cut_columns_to_fit(const ncx_limits &limits,
        const detail::axis_map &map, const ncx_channels &channels = {}) {
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
                && std::all_of(
                        tiles.begin(), tiles.end(), [&](const ncx_tile &tile) {
                            return tile.words <= most_words;
                        });
        if (fits) return tiles;
        if (width <= limits.side) return {};
        count = std::max(count + 1, ceil_div(map.src, width - limits.side));
    }
}

/// Planes side by side: `slots` of them, at even distances of `step` groups.
struct ncx_slots {
    int64_t slots = 1;
    int64_t step = 1;
    int64_t last = 1; ///< groups from the last slot's first one to the end
    int64_t walked = 1; ///< groups that a slot walks over
};

inline ncx_slots choose_slots(const ncx_limits &limits, const ncx_tile &tile,
        const walk_description &walk) {
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

/// The shape and, where `fills`, the tables; shape.tiles is 0 where a column has
/// too many taps. `walk` becomes that of the slots.
template <typename Sum>
ncx_tables<Sum> arrange_columns(const ncx_limits &limits,
        const detail::axis_map &map, walk_description &walk, ncx_shape &shape,
        const ncx_channels &channels = {}, bool fills = true) {
    ncx_tables<Sum> made;
    const std::vector<ncx_tile> tiles
            = cut_columns_to_fit(limits, map, channels);
    shape.tiles = static_cast<int32_t>(tiles.size());
    if (tiles.empty()) return made;

    const walk_shape before = walk.shape;
    ncx_slots slots {1, 1, 1, walk.groups};
    if (tiles.size() == 1 && !limits.dense)
        slots = choose_slots(limits, tiles[0], walk);
    const auto group_of = [&](int64_t slot) {
        return std::min(slot * slots.step, walk.groups - slots.last);
    };
    if (slots.step == 1) {
        walk.shape.dst_group_pitch *= slots.slots;
        walk.shape.src_group_pitch *= slots.slots;
    }
    walk.shape.row_total
            = slots.walked * walk.shape.src_depths * walk.shape.src_rows;

    int64_t most_words = 0;
    int64_t most_units = 0;
    for (const ncx_tile &tile : tiles) {
        most_words = std::max(most_words, tile.words);
        most_units = std::max(most_units, ceil_div(tile.outputs, limits.side));
    }
    shape.items = static_cast<int32_t>(slots.slots * most_units);
    // Words at even distances must be there in every tile.
    if (limits.dense && !limits.reduces)
        for (const ncx_tile &tile : tiles)
            if (tile.words <= 32 * (limits.words - 2)) shape.tiles = 0;
    if (shape.tiles == 0) return made;

    // The line: places before the first slot, the slots with two places after
    // each (in fours: none, but slots at multiples of four), places that the
    // last window reads, and those of words put aside.
    const bool fours = limits.taps == 0 || limits.taps == 8;
    // Channels lie one after the other, as slots do, in distinct banks.
    const int64_t block = channels.block;
    const int64_t most_wide = ceil_div(most_words * limits.vector, block)
            + (block > 1 ? 1 : 0) + (fours ? 3 : 0);
    int64_t line_pitch = fours ? ceil_div(most_wide, 4) * 4 : most_wide + 2;
    if (block > 1 && fours)
        line_pitch += line_pitch % 8 == 0 ? 4 : 0;
    else if (block >= 16)
        line_pitch |= 1;
    else if (block > 1)
        while (line_pitch % 32 != ceil_div(32, block))
            ++line_pitch;
    const int64_t pitch = line_pitch * block;
    int64_t lead = fours ? 0 : 2;
    int64_t quads = 1;
    if (fours) {
        // The lead at which windows begin nearest to a multiple of four.
        quads = 0;
        for (int64_t trial = 0; trial < 4; trial += limits.vector) {
            int64_t wanted = 1;
            for (const ncx_tile &tile : tiles)
                for (int64_t j = 0; j < tile.columns; ++j) {
                    const auto column
                            = static_cast<size_t>(tile.first_column + j);
                    const int64_t at = trial + map.first[column] - tile.origin;
                    if (map.count[column] > 0)
                        wanted = std::max(wanted,
                                ceil_div(at % 4 + map.count[column], 4));
                }
            if (quads == 0 || wanted < quads) {
                quads = wanted;
                lead = trial;
            }
        }
    }
    if (limits.taps == 8) {
        if (quads > 2) shape.tiles = 0;
        if (shape.tiles == 0) return made;
        quads = 2;
    }
    shape.quads = static_cast<int32_t>(quads);
    const int64_t taps = fours ? quads * 4 : limits.taps;
    const int64_t aside
            = ceil_div(lead + slots.slots * pitch + taps + 4, 4) * 4;
    shape.line_sums = static_cast<int32_t>(aside + 32 * limits.vector);
    // Places are 16 bits, and lines of all warps fit.
    if (limits.split && shape.line_sums * int64_t {sizeof(Sum)} > 10 * 1024)
        shape.tiles = 0;
    if (shape.tiles == 0 || !fills) return made;

    const auto tile_count = static_cast<int64_t>(tiles.size());
    for (const ncx_tile &tile : tiles)
        made.row_bytes.push_back(static_cast<int32_t>(
                tile.words * limits.vector * limits.bytes));
    made.words.resize(static_cast<size_t>(tile_count * limits.words * 32));
    made.outputs.resize(static_cast<size_t>(tile_count * limits.outputs * 32));
    made.weights.assign(
            static_cast<size_t>(tile_count * limits.outputs * taps * 32),
            Sum(0));
    for (int64_t t = 0; t < tile_count; ++t) {
        const ncx_tile &tile = tiles[static_cast<size_t>(t)];
        for (int64_t w = 0; w < limits.words * 32; ++w) {
            const int64_t lane = w % 32;
            // A word without work is copied from where the lane's last one with
            // work is: lanes that copy from one place do it one by one.
            const int64_t working = slots.slots * tile.words;
            const bool works = w < working;
            const int64_t spare = w - ceil_div(w - working + 1, 32) * 32;
            const int64_t from = works ? w : spare >= 0 ? spare : w % working;
            const int64_t slot = from / tile.words;
            const int64_t element = from % tile.words * limits.vector;
            const auto place_of = [&](int64_t e) {
                if (!works) return aside + lane * limits.vector + e;
                const int64_t column
                        = (element + e) / block + tile.begin - tile.origin;
                return lead + slot * pitch + (element + e) % block * line_pitch
                        + column;
            };
            int64_t place = place_of(0);
            if (limits.split && limits.vector == 2) place |= place_of(1) << 16;
            made.words[static_cast<size_t>(t * limits.words * 32 + w)]
                    = {static_cast<uint32_t>(
                               group_of(slot) * before.dst_group_pitch
                               + (tile.begin + element / block) * channels.count
                               + tile.channel + element % block),
                            static_cast<int32_t>(place)};
        }
        const int64_t units = ceil_div(tile.outputs, limits.side);
        for (int64_t o = 0; o < limits.outputs; ++o)
            for (int64_t lane = 0; lane < 32; ++lane) {
                const int64_t number = std::min(
                        o / limits.side * 32 + lane, slots.slots * units - 1);
                const int64_t slot = number / units;
                const int64_t in_tile = std::min(
                        number % units * limits.side + o % limits.side,
                        tile.outputs - 1);
                const int64_t j = tile.first_column + in_tile / block;
                const int64_t channel = in_tile % block;
                const auto column = static_cast<size_t>(j);
                const int64_t count = map.count[column];
                const int64_t first
                        = count > 0 ? map.first[column] : tile.begin;
                // How far the window begins before the first tap.
                int64_t early = 0;
                const int64_t at = lead + slot * pitch + channel * line_pitch
                        + first - tile.origin;
                if (fours)
                    early = at % 4;
                else if (count < limits.sure && first == 0)
                    early = limits.sure - count;
                const int64_t place = (t * limits.outputs + o) * 32 + lane;
                made.outputs[static_cast<size_t>(place)] = {
                        static_cast<uint32_t>(
                                group_of(slot) * before.src_group_pitch
                                + j * channels.count + tile.channel + channel),
                        static_cast<int32_t>(at - early)};
                for (int64_t k = 0; k < count; ++k) {
                    const int64_t x = k + early;
                    const int64_t row = (t * limits.outputs + o)
                            * (taps / (fours ? 4 : 1));
                    const int64_t to = fours
                            ? ((row + x / 4) * 32 + lane) * 4 + x % 4
                            : (row + x) * 32 + lane;
                    made.weights[static_cast<size_t>(to)]
                            = static_cast<Sum>(map.weights[static_cast<size_t>(
                                    map.offset[column] + k)]);
                }
            }
    }
    return made;
}

/// Instructions that a row of a plane takes, about; 0 where the kernel cannot.
template <typename Sum>
double cost_of(const ncx_limits &limits, const detail::axis_map &map,
        walk_description walk, const ncx_channels &channels = {}) {
    ncx_shape shape;
    const int64_t groups = walk.groups;
    arrange_columns<Sum>(limits, map, walk, shape, channels, false);
    if (shape.tiles == 0) return 0;
    const int64_t walked = walk.shape.row_total
            / (int64_t {walk.shape.src_depths} * walk.shape.src_rows);
    const auto number
            = [](int64_t value) { return static_cast<double>(value); };
    const double adds = limits.dense && !limits.reduces ? 1.5 : 2.5;
    const double words
            = number(limits.words) * (adds + 3.0 * number(limits.vector));
    const double stores = limits.dense ? 3.0 : 4.0;
    const double taps = limits.taps == 0 ? 16.0 * shape.quads
            : limits.taps == 8           ? 11.0
                                         : 2.5 * number(limits.taps);
    const double chunks = number(ceil_div(shape.items, 32) * limits.side);
    // A row of diff_src is written for every `ratio` of diff_dst.
    const double ratio = std::max(
            1.0, number(walk.shape.dst_rows) / number(walk.shape.src_rows));
    const double emits
            = (14.0 + chunks * (taps + stores / number(limits.side))) / ratio;
    return number(shape.tiles) * number(walked) / number(groups)
            * (36.0 + words + emits);
}

} // namespace gradnn::gpu
