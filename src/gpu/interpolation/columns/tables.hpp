// The tables of a columns kernel, made at compile: where every lane's words,
// outputs and weights lie; and the kernel's cost. The tiles: tiles.hpp.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "gpu/interpolation/columns/tiles.hpp"

namespace gradnn::gpu::interpolation::columns {

/// The tables of work_cut, on the host.
template <typename Sum>
struct host_tables {
    std::vector<lane_place> words;
    std::vector<lane_place> outputs;
    std::vector<Sum> weights;
    std::vector<int32_t> row_bytes;
};

/// How sums lie in a warp's line: places before the first slot, the slots with two
/// places after each (in fours: none, but slots at multiples of four), places that
/// the last window reads, and those of words put aside.
struct line_layout {
    bool fours = false; ///< windows are read four sums at a time
    int64_t block = 1; ///< channels, one after the other as slots are
    int64_t lead = 2; ///< places before the first slot
    int64_t line_pitch = 0; ///< between channels
    int64_t pitch = 0; ///< between slots
    int64_t quads = 1; ///< fours of sums that a window takes
    int64_t taps = 0; ///< weights of an output
    int64_t aside = 0; ///< where words put aside begin
};

/// Sets the lead at which windows begin nearest to a multiple of four.
inline void choose_lead(line_layout &line, const kind_limits &limits,
        const detail::axis_map &map, const std::vector<column_tile> &tiles) {
    line.quads = 0;
    for (int64_t trial = 0; trial < 4; trial += limits.vector) {
        int64_t most = 1;
        for (const column_tile &tile : tiles)
            for (int64_t j = 0; j < tile.columns; ++j) {
                const auto column = static_cast<size_t>(tile.first_column + j);
                const int64_t at = trial + map.first(column) - tile.origin;
                if (map.count(column) > 0)
                    most = std::max(
                            most, ceil_div(at % 4 + map.count(column), 4));
            }
        if (line.quads == 0 || most < line.quads) {
            line.quads = most;
            line.lead = trial;
        }
    }
}

inline line_layout lay_out_line(const kind_limits &limits,
        const detail::axis_map &map, const std::vector<column_tile> &tiles,
        int64_t slots, int64_t block) {
    line_layout line;
    line.fours = limits.taps == 0 || limits.taps == 8;
    line.block = block;
    int64_t most_words = 0;
    for (const column_tile &tile : tiles)
        most_words = std::max(most_words, tile.words);
    const int64_t most_wide = ceil_div(most_words * limits.vector, block)
            + (block > 1 ? 1 : 0) + (line.fours ? 3 : 0);
    line.line_pitch = line.fours ? ceil_div(most_wide, 4) * 4 : most_wide + 2;
    // Channels, whose sums are read in fours, lie in distinct banks.
    if (block > 1 && line.line_pitch % 8 == 0) line.line_pitch += 4;
    line.pitch = line.line_pitch * block;
    if (line.fours) choose_lead(line, limits, map, tiles);
    line.taps = limits.taps == 8 ? 8
            : line.fours         ? line.quads * 4
                                 : limits.taps;
    line.aside
            = ceil_div(line.lead + slots * line.pitch + line.taps + 4, 4) * 4;
    return line;
}

/// Fills the tables of one tile after the other.
template <typename Sum>
class table_writer {
public:
    /// The pitches of groups are those before slots were put side by side.
    table_writer(const kind_limits &limits, const detail::axis_map &map,
            const line_layout &line, const slot_planes &slots,
            const walk_description &walk, const channel_block &channels)
        : limits_(limits),
          map_(map),
          line_(line),
          slots_(slots),
          walk_(walk),
          channels_(channels) {}

    host_tables<Sum> tables_of(const std::vector<column_tile> &tiles) {
        const auto count = static_cast<int64_t>(tiles.size());
        made_.words.resize(static_cast<size_t>(count * limits_.words * 32));
        made_.outputs.resize(static_cast<size_t>(count * limits_.outputs * 32));
        made_.weights.assign(
                static_cast<size_t>(count * limits_.outputs * line_.taps * 32),
                Sum(0));
        for (int64_t t = 0; t < count; ++t) {
            const column_tile &tile = tiles[static_cast<size_t>(t)];
            made_.row_bytes.push_back(static_cast<int32_t>(
                    tile.words * limits_.vector * limits_.bytes));
            for (int64_t word = 0; word < limits_.words * 32; ++word)
                made_.words[static_cast<size_t>(t * limits_.words * 32 + word)]
                        = place_of_word(tile, word);
            for (int64_t output = 0; output < limits_.outputs; ++output)
                for (int64_t lane = 0; lane < 32; ++lane)
                    place_output(
                            tile, t * limits_.outputs + output, output, lane);
        }
        return std::move(made_);
    }

private:
    int64_t group_of(int64_t slot) const {
        return std::min(slot * slots_.step, walk_.groups - slots_.last);
    }

    lane_place place_of_word(const column_tile &tile, int64_t word) const {
        const int64_t lane = word % 32;
        // A word without work is copied from where the lane's last one with
        // work is: lanes that copy from one place do it one by one.
        const int64_t working = slots_.slots * tile.words;
        const bool works = word < working;
        const int64_t spare = word - ceil_div(word - working + 1, 32) * 32;
        const int64_t from = works ? word : spare >= 0 ? spare : word % working;
        const int64_t slot = from / tile.words;
        const int64_t element = from % tile.words * limits_.vector;
        const auto place_of = [&](int64_t e) {
            if (!works) return line_.aside + lane * limits_.vector + e;
            const int64_t column
                    = (element + e) / line_.block + tile.begin - tile.origin;
            return line_.lead + slot * line_.pitch
                    + (element + e) % line_.block * line_.line_pitch + column;
        };
        int64_t place = place_of(0);
        if (limits_.split && limits_.vector == 2) place |= place_of(1) << 16;
        return {static_cast<uint32_t>(
                        group_of(slot) * walk_.shape.dst_group_pitch
                        + (tile.begin + element / line_.block) * channels_.count
                        + tile.channel + element % line_.block),
                static_cast<int32_t>(place)};
    }

    /// An output of a lane, and the weights of its window; `row` counts the
    /// outputs of all tiles.
    void place_output(const column_tile &tile, int64_t row, int64_t output,
            int64_t lane) {
        const int64_t units = ceil_div(tile.outputs, limits_.side);
        const int64_t number = std::min(
                output / limits_.side * 32 + lane, slots_.slots * units - 1);
        const int64_t slot = number / units;
        const int64_t in_tile = std::min(
                number % units * limits_.side + output % limits_.side,
                tile.outputs - 1);
        const int64_t j = tile.first_column + in_tile / line_.block;
        const int64_t channel = in_tile % line_.block;
        const auto column = static_cast<size_t>(j);
        const int64_t count = map_.count(column);
        const int64_t first = count > 0 ? map_.first(column) : tile.begin;
        const int64_t at = line_.lead + slot * line_.pitch
                + channel * line_.line_pitch + first - tile.origin;
        // How far the window begins before the first tap.
        int64_t early = 0;
        if (line_.fours)
            early = at % 4;
        else if (count < limits_.sure && first == 0)
            early = limits_.sure - count;
        made_.outputs[static_cast<size_t>(row * 32 + lane)]
                = {static_cast<uint32_t>(
                           group_of(slot) * walk_.shape.src_group_pitch
                           + j * channels_.count + tile.channel + channel),
                        static_cast<int32_t>(at - early)};
        for (int64_t k = 0; k < count; ++k) {
            const int64_t x = k + early;
            const int64_t to = line_.fours
                    ? ((row * line_.quads + x / 4) * 32 + lane) * 4 + x % 4
                    : (row * line_.taps + x) * 32 + lane;
            made_.weights[static_cast<size_t>(to)]
                    = static_cast<Sum>(map_.weight(map_.offset(column) + k));
        }
    }

    const kind_limits &limits_;
    const detail::axis_map &map_;
    const line_layout &line_;
    const slot_planes &slots_;
    const walk_description &walk_;
    const channel_block &channels_;
    host_tables<Sum> made_;
};

/// The shape and, where `fills`, the tables; shape.tiles is 0 where a column has
/// too many taps. `walk` becomes that of the slots.
template <typename Sum>
host_tables<Sum> arrange_columns(const kind_limits &limits,
        const detail::axis_map &map, walk_description &walk, work_cut &shape,
        const channel_block &channels, bool fills = true) {
    const auto refuse = [&] {
        shape.tiles = 0;
        return host_tables<Sum> {};
    };
    const std::vector<column_tile> tiles
            = cut_columns_to_fit(limits, map, channels);
    if (tiles.empty()) return refuse();
    shape.tiles = static_cast<int32_t>(tiles.size());

    const walk_description before = walk;
    slot_planes slots {1, 1, 1, walk.groups};
    if (tiles.size() == 1 && !limits.dense)
        slots = choose_slots(limits, tiles[0], walk);
    if (slots.step == 1) {
        walk.shape.dst_group_pitch *= slots.slots;
        walk.shape.src_group_pitch *= slots.slots;
    }
    walk.shape.row_total
            = slots.walked * walk.shape.src_depths * walk.shape.src_rows;

    int64_t most_units = 0;
    for (const column_tile &tile : tiles) {
        most_units = std::max(most_units, ceil_div(tile.outputs, limits.side));
        // Words at even distances must be there in every tile.
        if (limits.dense && !limits.reduces
                && tile.words <= 32 * (limits.words - 2))
            return refuse();
    }
    shape.items = static_cast<int32_t>(slots.slots * most_units);
    line_layout line
            = lay_out_line(limits, map, tiles, slots.slots, channels.block);
    if (limits.taps == 8) {
        if (line.quads > 2) return refuse();
        line.quads = 2;
    }
    shape.quads = static_cast<int32_t>(line.quads);
    shape.line_sums = static_cast<int32_t>(line.aside + 32 * limits.vector);
    // Places are 16 bits, and lines of all warps fit.
    if (limits.split && shape.line_sums * int64_t {sizeof(Sum)} > 10 * 1024)
        return refuse();
    if (!fills) return {};
    return table_writer<Sum>(limits, map, line, slots, before, channels)
            .tables_of(tiles);
}

/// Instructions that a row of a plane takes, about; 0 where the kernel cannot.
template <typename Sum>
double cost_of(const kind_limits &limits, const detail::axis_map &map,
        walk_description walk, const channel_block &channels) {
    work_cut shape;
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

} // namespace gradnn::gpu::interpolation::columns
