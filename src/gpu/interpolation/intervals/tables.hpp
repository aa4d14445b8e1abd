// How gpu_intervals (intervals.cu) cuts the columns of a problem,
// decided at compile: the intervals, their weights, and what a tile holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gpu/device/rounding.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation::intervals {

/// What a column of diff_dst gives to the two source columns of its interval.
template <typename Sum>
struct alignas(2 * sizeof(Sum)) weight_pair {
    Sum low = 0;
    Sum high = 0;
};

/// Pieces of 16 bytes that memory is copied in.
constexpr int64_t piece_bytes = 16;

/// The columns of diff_dst in groups. With two taps to a column (`lead` is 1),
/// interval i holds those between the source columns i - 1 and i: interval 0
/// those that the clamp at 0 gives to column 0 alone. With one tap (`lead` is
/// 0), interval i holds the columns of source column i. Where intervals have
/// more columns than a thread holds, they are cut into `parts`; a part is what a
/// thread has of a channel.
template <typename Sum>
struct interval_table {
    int64_t lead = 0;
    int64_t parts = 1;
    int64_t used = 1; ///< columns of a part, at most
    int64_t pitch = 1; ///< weights of a part, in memory
    /// The first column of every part, and the end of the last.
    std::vector<int32_t> first;
    /// [part][pitch], 0 beyond the part's columns.
    std::vector<weight_pair<Sum>> weights;
};

/// The columns of a part that a kernel holds: a power of two.
inline int64_t taps_that_hold(int64_t used) {
    int64_t taps = 2;
    while (taps < used)
        taps *= 2;
    return taps;
}

template <typename Sum>
interval_table<Sum> make_intervals(
        const detail::axis_map &map, int64_t most_taps) {
    interval_table<Sum> made;
    const auto columns = map.dst;
    const auto high_weight
            = [&](int64_t q) { return static_cast<Sum>(map.high_weight(q)); };
    for (int64_t q = 0; q < columns; ++q)
        if (high_weight(q) != 0) made.lead = 1;
    // begin[i]: the columns before interval i. Coordinates never descend.
    std::vector<int64_t> begin(static_cast<size_t>(map.src + made.lead) + 1, 0);
    int64_t clamped = 0;
    if (made.lead == 1)
        while (map.low(clamped) == 0 && high_weight(clamped) == 0)
            ++clamped;
    for (int64_t q = 0; q < columns; ++q) {
        const int64_t interval = q < clamped ? 0 : map.low(q) + made.lead;
        ++begin[static_cast<size_t>(interval) + 1];
    }
    int64_t most = 1;
    for (size_t i = 1; i < begin.size(); ++i) {
        most = std::max(most, begin[i]);
        begin[i] += begin[i - 1];
    }
    made.parts = (most + most_taps - 1) / most_taps;
    made.used = (most + made.parts - 1) / made.parts;
    // An odd distance: neighbouring parts lie in other banks.
    made.pitch = taps_that_hold(made.used) + 1;
    for (size_t i = 0; i + 1 < begin.size(); ++i)
        for (int64_t part = 0; part < made.parts; ++part) {
            const int64_t from
                    = std::min(begin[i] + part * made.used, begin[i + 1]);
            const int64_t to = std::min(from + made.used, begin[i + 1]);
            made.first.push_back(static_cast<int32_t>(from));
            for (int64_t k = 0; k < made.pitch; ++k) {
                weight_pair<Sum> pair;
                const int64_t q = from + k;
                if (q < to && q < clamped)
                    pair.high = static_cast<Sum>(map.low_weight(q));
                else if (q < to)
                    pair = {static_cast<Sum>(map.low_weight(q)),
                            high_weight(q)};
                made.weights.push_back(pair);
            }
        }
    made.first.push_back(static_cast<int32_t>(columns));
    return made;
}

/// A tile is so many source columns by so many of their channels, all tiles
/// alike: the last ones overlap those before them, and both write the same bits.
/// Its intervals are those of its columns and, where there is a lead, the one
/// before. An item is a channel of a part, the parts one after the other.
struct work_cut {
    int64_t dst_column_pitch = 0; ///< elements
    int64_t src_column_pitch = 0;
    int32_t dst_columns = 0;
    int32_t src_columns = 0;
    int32_t channels = 1;
    int32_t lead = 0;
    int32_t parts = 1;
    int32_t tile_columns = 1;
    int32_t tile_channels = 1;
    int32_t column_tiles = 1;
    int32_t channel_tiles = 1;
    int32_t items = 0;
    /// A slot of shared memory holds a row of a tile: its columns of diff_dst at
    /// this distance in bytes, which leaves the same remainder by 16 as theirs
    /// in memory. Where the tile has whole pixels that lie side by side, it is
    /// theirs: one run of memory; else (`apart`) every column is a run.
    int32_t column_bytes = 0;
    int32_t slot_bytes = 0;
    /// Pieces of a slot from that which a run begins in at an aligned row, which
    /// it touches at most. A thread copies the same piece of one in every
    /// `runs_at_once`: so many that all its runs begin at one remainder by 16. 0
    /// where the threads are too few.
    int32_t run_pieces = 1;
    int32_t runs_at_once = 0;
    int32_t span = 0; ///< columns of diff_dst of a tile, at most
    bool apart = false;
    /// No part has more than 3/4 of the columns that the kernel holds.
    bool is_short = false;
};

/// Columns of diff_dst of the tile that begins at a source column: the first and
/// how many, at least one, which none uses where there are none.
struct tile_span {
    int32_t first = 0;
    int32_t count = 1;
};

__host__ __device__ inline tile_span span_of_tile(
        const work_cut &cut, const int32_t *first, int64_t column) {
    const int64_t part = column * cut.parts;
    const int32_t begin = first[part];
    const int32_t end = first[part + (cut.tile_columns + cut.lead) * cut.parts];
    const int32_t last = cut.dst_columns - 1;
    return {begin < last ? begin : last, end > begin ? end - begin : 1};
}

/// The source column that a tile begins at.
__host__ __device__ inline int32_t first_of_tile(
        const work_cut &cut, int32_t tile) {
    const int32_t last = cut.src_columns - cut.tile_columns;
    const int32_t at = tile * cut.tile_columns;
    return at < last ? at : last;
}

/// Fills in what follows from tile_columns and tile_channels, which are made
/// even. `element` is in bytes; for blocks of so many threads.
template <typename Sum>
void measure_tile(work_cut &cut, const interval_table<Sum> &table,
        int64_t element, int64_t threads) {
    const auto short_of
            = [](int64_t value) { return static_cast<int32_t>(value); };
    const auto split = [](int32_t count, int32_t &width, int32_t &tiles) {
        tiles = (count + width - 1) / width;
        width = (count + tiles - 1) / tiles;
        tiles = (count + width - 1) / width;
    };
    split(cut.src_columns, cut.tile_columns, cut.column_tiles);
    split(cut.channels, cut.tile_channels, cut.channel_tiles);
    cut.lead = short_of(table.lead);
    cut.parts = short_of(table.parts);
    const int64_t tile_parts = (cut.tile_columns + cut.lead) * cut.parts;
    cut.items = short_of(tile_parts * cut.tile_channels);
    const int64_t taps = taps_that_hold(table.used);
    cut.is_short = taps > 2 && 4 * table.used <= 3 * taps;
    cut.apart = cut.tile_channels != cut.channels
            || (cut.dst_columns > 1 && cut.dst_column_pitch != cut.channels);
    const int64_t run = cut.tile_channels * element;
    int64_t pitch = run;
    if (cut.apart) {
        // Pieces of neighbouring runs do not meet: 15 bytes on either side.
        const int64_t remainder = cut.dst_column_pitch * element % piece_bytes;
        pitch = round_up(run + 2 * (piece_bytes - 1) - remainder, piece_bytes)
                + remainder;
    }
    cut.column_bytes = short_of(pitch);
    cut.run_pieces = short_of((run + 3 * (piece_bytes - 1)) / piece_bytes);
    const int64_t period = piece_bytes / std::gcd(pitch, piece_bytes);
    cut.runs_at_once = short_of(threads / cut.run_pieces / period * period);
    // A thread reads as many columns as the kernel holds, and uses its own.
    const int64_t reads = cut.is_short ? taps * 3 / 4 : taps;
    int64_t reach = 1;
    cut.span = 1;
    for (int32_t tile = 0; tile < cut.column_tiles; ++tile) {
        const int64_t column = first_of_tile(cut, tile);
        const tile_span span = span_of_tile(cut, table.first.data(), column);
        cut.span = std::max(cut.span, span.count);
        for (int64_t part = 0; part < tile_parts; ++part)
            reach = std::max(reach,
                    table.first[static_cast<size_t>(column * cut.parts + part)]
                            - span.first + reads);
    }
    reach = std::max<int64_t>(reach, cut.span);
    cut.slot_bytes = short_of(
            round_up(piece_bytes - 1 + (reach - 1) * pitch + run, piece_bytes));
}

} // namespace gradnn::gpu::interpolation::intervals
