// What the planes kernel (kernel.cuh) reads: its shape, segments of
// rows, windows of columns. The host's arithmetic alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation::planes {

constexpr int most_threads = 256;
/// Of a multiprocessor, for which the registers must do.
constexpr int resident_threads = 5 * most_threads;
constexpr int most_segments = 8;

/// Planes whose columns a thread sums at once: 8 bytes of each row.
template <int64_t element_bytes, int vector>
constexpr int planes_abreast = static_cast<int>(8 / element_bytes) / vector;

/// One row of diff_dst: what it gives the source row that it is taken for and,
/// where that is not 0, the next one.
template <typename Sum>
struct alignas(2 * sizeof(Sum)) weighted_row {
    Sum low_weight = 0;
    Sum high_weight = 0;
};

/// Source rows that a part of the block sums: `rows` from src_row on. Each takes
/// as many rows of diff_dst as its count says, from dst_row on.
struct row_segment {
    int32_t src_row = 0;
    int32_t rows = 0;
    int32_t dst_row = 0;
    int32_t first_weights = 0; ///< those of dst_row
};

struct work_cut {
    int32_t chunks = 0;
    int32_t chunk_planes = 0;
    int32_t last_planes = 0; ///< of the last chunk
    int32_t plane_elements = 0; ///< of diff_dst
    int32_t outputs = 0; ///< elements of a plane of diff_src
    int32_t dst_columns = 0;
    int32_t src_rows = 0;
    int32_t src_columns = 0;
    // The threads that walk down rows: a segment has slots of so many lanes,
    // of which `words` have work. A slot has the plane that `order` names and
    // those that follow it at distances of `abreast_planes`.
    int32_t segment_threads = 0;
    int32_t slot_lanes = 0;
    int32_t words = 0;
    int32_t slots = 0;
    int32_t abreast_planes = 0; ///< slots, or 1: neighbouring planes
    // The threads that take taps: rows of diff_src, of so many lanes each.
    int32_t gather_lanes = 0;
    int32_t gather_rows = 0;
    int32_t fours = 0; ///< of sums that a window takes, where any number
    // Of a stage: groups of planes that are whole pieces of 16 bytes have a gap
    // behind them, against bank conflicts.
    int32_t group_planes = 1;
    int32_t group_gap = 0; ///< in elements
    uint32_t group_reciprocal = 0; ///< 2^32 / pieces of a group, rounded up
    int32_t abreast_elements = 0; ///< from a plane to the next one abreast
    int32_t pass_elements = 0; ///< from a pass over the rows to the next one
    // Shared memory: two stages of stage_bytes, then these, in bytes.
    int32_t stage_bytes = 0;
    int32_t line_at = 0;
    int32_t weights_at = 0;
    int32_t counts_at = 0;
    int32_t line_sums = 0;
    int32_t line_pitch = 0; ///< of source rows, in sums
    int32_t line_shift = 0; ///< place of column 0 in a row of the line
    int32_t weights = 0; ///< of rows, over all segments
    row_segment segments[most_segments] = {};
};

/// Source rows in segments.
struct row_segments {
    std::array<row_segment, most_segments> segments {};
    std::vector<weighted_row<double>> weights;
    std::vector<int32_t> counts; ///< [source row]
    int64_t most_rows = 0; ///< of diff_dst, in a segment
    int64_t most_src_rows = 0;
};

inline row_segments cut_segments(const detail::axis_map &rows, int count) {
    row_segments made;
    made.counts.assign(static_cast<size_t>(rows.src), 0);
    for (int s = 0; s < count; ++s) {
        const int64_t begin = rows.src * s / count;
        const int64_t end = rows.src * (s + 1) / count;
        row_segment &segment = made.segments[static_cast<size_t>(s)];
        segment.src_row = static_cast<int32_t>(begin);
        segment.rows = static_cast<int32_t>(end - begin);
        segment.first_weights = static_cast<int32_t>(made.weights.size());
        int64_t taken = 0;
        for (int64_t p = 0; p < rows.dst; ++p) {
            const auto row = static_cast<size_t>(p);
            int64_t low = rows.low(row);
            const bool two = rows.high_weight(row) != 0;
            if ((two ? low + 1 : low) < begin || low >= end) continue;
            weighted_row<double> weights;
            if (low < begin) { // its high row alone
                low = begin;
                weights.low_weight = rows.high_weight(row);
            } else {
                weights.low_weight = rows.low_weight(row);
                if (two && low + 1 < end)
                    weights.high_weight = rows.high_weight(row);
            }
            if (taken++ == 0) segment.dst_row = static_cast<int32_t>(p);
            ++made.counts[static_cast<size_t>(low)];
            made.weights.push_back(weights);
        }
        made.most_rows = std::max(made.most_rows, taken);
        made.most_src_rows = std::max(made.most_src_rows, end - begin);
    }
    return made;
}

/// The columns' windows of the line: see window_kind.
struct column_windows {
    int taps = 0;
    int align = 4;
    int32_t shift = 0;
    int32_t fours = 0;
    int32_t row_sums = 0; ///< least pitch of the line
    std::vector<int32_t> places;
    std::vector<double> weights;
};

/// Windows of `taps` at multiples of `align` in a line that begins with `shift`
/// zeros; nothing where a column's taps do not fit. Where `sure`, a place
/// without a tap lies beyond the row.
inline std::optional<column_windows> place_windows(
        const detail::axis_map &columns, int taps, int align, int32_t shift) {
    const bool sure = taps > 0 && align > 1;
    column_windows made {taps, align, shift, 0,
            static_cast<int32_t>(columns.dst) + shift, {}, {}};
    const auto count = static_cast<size_t>(columns.src);
    int64_t width = taps;
    for (size_t j = 0; j < count; ++j) {
        const int64_t first = columns.first(j) + shift;
        const int64_t begin = columns.count(j) == 0 ? 0 : first / align * align;
        made.places.push_back(static_cast<int32_t>(begin));
        const int64_t wanted = first + columns.count(j) - begin;
        if (taps == 0)
            width = std::max(width, (wanted + 3) / 4 * 4);
        else if (columns.count(j) > 0 && wanted > taps)
            return {};
    }
    made.fours = static_cast<int32_t>(width / 4);
    made.weights.assign(count * static_cast<size_t>(width), 0.0);
    for (size_t j = 0; j < count; ++j)
        for (int64_t k = 0; k < width; ++k) {
            const int64_t q = made.places[j] + k - shift;
            const int64_t tap = q - columns.first(j);
            const bool is_tap = tap >= 0 && tap < columns.count(j);
            if (is_tap) {
                const auto at = taps == 0
                        ? (static_cast<size_t>(k / 4) * count + j) * 4
                                + static_cast<size_t>(k % 4)
                        : j * static_cast<size_t>(width)
                                + static_cast<size_t>(k);
                made.weights[at] = columns.weight(columns.offset(j) + tap);
            } else if (sure) {
                if (q >= 0 && q < columns.dst) return {};
                made.row_sums = std::max(
                        made.row_sums, static_cast<int32_t>(q + shift + 1));
            }
        }
    return made;
}

/// f64 has no windows of pairs and fours but those of any number.
inline column_windows choose_windows(
        const detail::axis_map &columns, bool f64) {
    const auto sure = [&](int taps, int align) {
        std::optional<column_windows> made;
        for (int32_t shift = 0; shift < align && !made && !f64; ++shift)
            made = place_windows(columns, taps, align, shift);
        return made;
    };
    if (columns.max_count <= 2) return *place_windows(columns, 2, 1, 0);
    if (auto made = sure(4, 2)) return *made;
    if (columns.max_count <= 4) return *place_windows(columns, 4, 1, 0);
    if (auto made = sure(8, 4)) return *made;
    return *place_windows(columns, 0, 4, 0);
}

} // namespace gradnn::gpu::interpolation::planes
