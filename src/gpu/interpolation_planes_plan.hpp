// How the planes kernel (interpolation_planes.cuh) cuts a problem: chunks,
// segments, the threads' work, the places in shared memory. Decided at compile
// from an estimate of cycles; the host's arithmetic alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "axis_map.hpp"

namespace gradnn::gpu {

constexpr int planes_most_threads = 256;
constexpr int planes_most_segments = 8;

/// Planes whose columns a thread sums at once: 8 bytes of each row.
template <int64_t element_bytes, int vector>
constexpr int planes_abreast = static_cast<int>(8 / element_bytes) / vector;

/// One row of diff_dst: what it gives the source row that it is taken for and,
/// where that is not 0, the next one.
template <typename Sum>
struct alignas(2 * sizeof(Sum)) planes_row {
    Sum low_weight = 0;
    Sum high_weight = 0;
};

/// Source rows that a part of the block sums: `rows` from src_row on. Each takes
/// as many rows of diff_dst as its count says, from dst_row on.
struct planes_segment {
    int32_t src_row = 0;
    int32_t rows = 0;
    int32_t dst_row = 0;
    int32_t first_weights = 0; ///< those of dst_row
};

struct planes_shape {
    int64_t planes = 0;
    int64_t chunks = 0;
    int32_t chunk_planes = 0;
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
    // Shared memory: two stages of stage_bytes, then these, in bytes.
    int32_t stage_bytes = 0;
    int32_t line_at = 0;
    int32_t weights_at = 0;
    int32_t counts_at = 0;
    int32_t line_sums = 0;
    int32_t line_pitch = 0; ///< of source rows, in sums
    int32_t line_shift = 0; ///< place of column 0 in a row of the line
    int32_t weights = 0; ///< of rows, over all segments
    planes_segment segments[planes_most_segments] = {};
};

/// Source rows in segments.
struct planes_segments {
    std::array<planes_segment, planes_most_segments> segments {};
    std::vector<planes_row<double>> weights;
    std::vector<int32_t> counts; ///< [source row]
    int64_t most_rows = 0; ///< of diff_dst, in a segment
    int64_t most_src_rows = 0;
};

inline planes_segments cut_segments(const detail::axis_map &rows, int count) {
    planes_segments made;
    made.counts.assign(static_cast<size_t>(rows.src), 0);
    for (int s = 0; s < count; ++s) {
        const int64_t begin = rows.src * s / count;
        const int64_t end = rows.src * (s + 1) / count;
        planes_segment &segment = made.segments[static_cast<size_t>(s)];
        segment.src_row = static_cast<int32_t>(begin);
        segment.rows = static_cast<int32_t>(end - begin);
        segment.first_weights = static_cast<int32_t>(made.weights.size());
        int64_t taken = 0;
        for (int64_t p = 0; p < rows.dst; ++p) {
            const auto row = static_cast<size_t>(p);
            int64_t low = rows.low[row];
            const bool two = rows.high_weight[row] != 0;
            if ((two ? low + 1 : low) < begin || low >= end) continue;
            planes_row<double> weights;
            if (low < begin) { // its high row alone
                low = begin;
                weights.low_weight = rows.high_weight[row];
            } else {
                weights.low_weight = rows.low_weight[row];
                if (two && low + 1 < end)
                    weights.high_weight = rows.high_weight[row];
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

/// The columns' windows of the line: see planes_window.
struct planes_windows {
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
inline std::optional<planes_windows> place_windows(
        const detail::axis_map &columns, int taps, int align, int32_t shift) {
    const bool sure = taps > 0 && align > 1;
    planes_windows made {taps, align, shift, 0,
            static_cast<int32_t>(columns.dst) + shift, {}, {}};
    const auto count = static_cast<size_t>(columns.src);
    int64_t width = taps;
    for (size_t j = 0; j < count; ++j) {
        const int64_t first = columns.first[j] + shift;
        const int64_t begin = columns.count[j] == 0 ? 0 : first / align * align;
        made.places.push_back(static_cast<int32_t>(begin));
        const int64_t wanted = first + columns.count[j] - begin;
        if (taps == 0)
            width = std::max(width, (wanted + 3) / 4 * 4);
        else if (columns.count[j] > 0 && wanted > taps)
            return {};
    }
    made.fours = static_cast<int32_t>(width / 4);
    made.weights.assign(count * static_cast<size_t>(width), 0.0);
    for (size_t j = 0; j < count; ++j)
        for (int64_t k = 0; k < width; ++k) {
            const int64_t q = made.places[j] + k - shift;
            const int64_t tap = q - columns.first[j];
            const bool is_tap = tap >= 0 && tap < columns.count[j];
            if (is_tap) {
                const auto at = taps == 0
                        ? (static_cast<size_t>(k / 4) * count + j) * 4
                                + static_cast<size_t>(k % 4)
                        : j * static_cast<size_t>(width)
                                + static_cast<size_t>(k);
                made.weights[at] = columns.weights[static_cast<size_t>(
                        columns.offset[j] + tap)];
            } else if (sure) {
                if (q >= 0 && q < columns.dst) return {};
                made.row_sums = std::max(
                        made.row_sums, static_cast<int32_t>(q + shift + 1));
            }
        }
    return made;
}

/// f64 has no windows of pairs and fours but those of any number.
inline planes_windows choose_windows(
        const detail::axis_map &columns, bool f64) {
    const auto sure = [&](int taps, int align) {
        std::optional<planes_windows> made;
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

struct planes_sizes {
    int64_t planes = 0;
    int64_t element_bytes = 0;
    int64_t multiprocessors = 1;
    int64_t shared_bytes = 0; ///< that a block may ask for
};

struct planes_arrangement {
    planes_shape shape;
    int vector = 1;
    int abreast = 1;
    int threads = 0;
    int64_t shared_bytes = 0;
    planes_windows windows;
    std::vector<planes_row<double>> weights; ///< of rows
    std::vector<int32_t> counts;
    std::vector<int32_t> order; ///< [slot]: its first plane
};

/// Turns that shared memory takes for a warp's accesses of `bytes` (4 to 16, or
/// less) each at these byte addresses; lanes without one have -1.
inline int shared_turns(const std::vector<int64_t> &addresses, int64_t bytes) {
    const int64_t width = std::max<int64_t>(bytes, 4);
    const auto lanes = static_cast<size_t>(128 / width);
    int turns = 0;
    for (size_t begin = 0; begin < addresses.size(); begin += lanes) {
        int64_t words[32][32];
        int counts[32] = {};
        int most = 0;
        const size_t end = std::min(begin + lanes, addresses.size());
        for (size_t lane = begin; lane < end; ++lane)
            for (int64_t part = 0; part < width / 4 && addresses[lane] >= 0;
                    ++part) {
                const int64_t word = addresses[lane] / 4 + part;
                const auto bank = static_cast<size_t>(word % 32);
                int64_t *const known = words[bank];
                int &count = counts[bank];
                if (std::find(known, known + count, word) != known + count)
                    continue;
                known[count++] = word;
                most = std::max(most, count);
            }
        turns += most;
    }
    return turns;
}

inline int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/// Lanes for so many: where it leaves few idle, a power of two, which makes all
/// warps alike and leaves room to shun bank conflicts.
inline int32_t even_lanes(int64_t count) {
    int64_t lanes = 1;
    while (lanes < count)
        lanes *= 2;
    return static_cast<int32_t>(
            lanes <= 32 && count * 100 >= lanes * 85 ? lanes : count);
}

/// Sets the places in shared memory; returns its bytes.
inline int64_t place_shared(planes_arrangement &made, int64_t element_bytes) {
    planes_shape &shape = made.shape;
    const int64_t sum_bytes = element_bytes == 8 ? 8 : 4;
    const int64_t plane_bytes = shape.plane_elements * element_bytes;
    // Planes that the last pass of a chunk has, if it wants them or not.
    const int64_t planes = round_up(
            shape.chunk_planes, int64_t {shape.slots} * made.abreast);
    const int64_t stage = round_up(shape.chunk_planes * plane_bytes, 16);
    // Windows reach beyond the last row.
    const int64_t sums = round_up(planes * shape.src_rows * shape.line_pitch
                    + std::max(made.windows.taps, 4 * made.windows.fours),
            4);
    const int64_t line_at = 2 * stage;
    const int64_t weights_at = round_up(line_at + sums * sum_bytes, 16);
    const int64_t counts_at = weights_at + shape.weights * 2 * sum_bytes;
    const int64_t end = std::max(
            counts_at + shape.src_rows * 4, stage + planes * plane_bytes);
    constexpr int64_t most = int64_t {1} << 30;
    if (end > most) return most;
    shape.stage_bytes = static_cast<int32_t>(stage);
    shape.line_at = static_cast<int32_t>(line_at);
    shape.weights_at = static_cast<int32_t>(weights_at);
    shape.counts_at = static_cast<int32_t>(counts_at);
    shape.line_sums = static_cast<int32_t>(sums);
    return end;
}

/// Blocks of a multiprocessor (compute capability 9.0), at 48 registers a
/// thread.
inline int64_t planes_resident(int64_t shared_bytes, int threads) {
    return std::min<int64_t>(
            {int64_t {228} * 1024 / (shared_bytes + 1024), 1280 / threads, 16});
}

/// Turns of all warps for the windows of one pass.
inline int64_t window_turns(
        const planes_arrangement &made, int64_t element_bytes) {
    const planes_shape &shape = made.shape;
    const int64_t sum_bytes = element_bytes == 8 ? 8 : 4;
    int64_t turns = 0;
    for (int warp = 0; warp < made.threads; warp += 32) {
        std::vector<int64_t> addresses;
        for (int t = warp; t < warp + 32; ++t) {
            const int row = t / shape.gather_lanes;
            const int j = t % shape.gather_lanes;
            const bool gathers
                    = row < shape.gather_rows && j < shape.src_columns;
            addresses.push_back(!gathers
                            ? -1
                            : (int64_t {row} * shape.line_pitch
                                      + made.windows
                                                .places[static_cast<size_t>(j)])
                                    * sum_bytes);
        }
        turns += shared_turns(addresses, sum_bytes * made.windows.align);
    }
    return turns;
}

/// Orders the planes so that those side by side in a warp conflict least, slot
/// by slot; returns the turns of one segment's warps for a walk down the rows.
inline int64_t order_planes(planes_arrangement &made, int64_t element_bytes) {
    const planes_shape &shape = made.shape;
    const int64_t sum_bytes = element_bytes == 8 ? 8 : 4;
    const auto turns_of = [&](int warp) {
        std::vector<int64_t> reads;
        std::vector<int64_t> writes;
        for (int lane = warp * 32; lane < warp * 32 + 32; ++lane) {
            const auto slot = static_cast<size_t>(lane / shape.slot_lanes);
            const int word = lane % shape.slot_lanes;
            const bool walks = slot < made.order.size() && word < shape.words;
            const int64_t plane = walks ? made.order[slot] : 0;
            reads.push_back(
                    !walks ? -1
                           : (plane * shape.plane_elements + word * made.vector)
                                    * element_bytes);
            writes.push_back(!walks ? -1
                                    : (plane * shape.src_rows * shape.line_pitch
                                              + word * made.vector)
                                    * sum_bytes);
        }
        return int64_t {made.abreast}
        * (shared_turns(reads, made.vector * element_bytes) * shape.weights
                + shared_turns(writes, sum_bytes) * made.vector
                        * shape.src_rows);
    };
    // Of the planes that are left, the first few are as good as any.
    constexpr size_t tries = 16;
    std::vector<int32_t> left(static_cast<size_t>(shape.slots));
    const int32_t apart = shape.abreast_planes == 1 ? made.abreast : 1;
    for (size_t i = 0; i < left.size(); ++i)
        left[i] = static_cast<int32_t>(i) * apart;
    made.order.clear();
    while (!left.empty()) {
        const auto slot = static_cast<int>(made.order.size());
        const int first = slot * shape.slot_lanes / 32;
        const int last = (slot * shape.slot_lanes + shape.words - 1) / 32;
        size_t best = 0;
        int64_t least = 0;
        made.order.push_back(0);
        for (size_t i = 0; i < std::min(tries, left.size()); ++i) {
            made.order.back() = left[i];
            int64_t turns = 0;
            for (int warp = first; warp <= last; ++warp)
                turns += turns_of(warp);
            if (i > 0 && turns >= least) continue;
            best = i;
            least = turns;
        }
        made.order.back() = left[best];
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    }
    int64_t turns = 0;
    for (int warp = 0; warp < shape.segment_threads / 32; ++warp)
        turns += turns_of(warp);
    return turns;
}

/// Sets the pitch of the line and the order of planes that give the fewest bank
/// conflicts at the same number of resident blocks.
inline void avoid_conflicts(
        planes_arrangement &made, const planes_sizes &sizes, int64_t resident) {
    const int64_t bytes = sizes.element_bytes;
    const int64_t walks = round_up(made.shape.chunk_planes,
                                  int64_t {made.abreast} * made.shape.slots)
            / (int64_t {made.abreast} * made.shape.slots);
    const int64_t gathers = int64_t {made.shape.chunk_planes}
            * made.shape.src_rows / made.shape.gather_rows;
    const int64_t reads = std::max(made.windows.taps, 4 * made.windows.fours)
            / made.windows.align;
    planes_arrangement best = made;
    int64_t least = 0;
    for (int pad = 0; pad < 8; ++pad) {
        made.shared_bytes = place_shared(made, bytes);
        if (made.shared_bytes > sizes.shared_bytes
                || planes_resident(made.shared_bytes, made.threads) < resident)
            break;
        for (const int32_t apart : {made.shape.slots, 1}) {
            made.shape.abreast_planes = apart;
            const int64_t turns = walks * order_planes(made, bytes)
                    + gathers * reads * window_turns(made, bytes);
            if (least != 0 && turns >= least) continue;
            least = turns;
            best = made;
        }
        made.shape.line_pitch += made.windows.align;
    }
    made = best;
}

/// Nothing where no chunk fits.
inline std::optional<planes_arrangement> arrange_planes(
        const planes_sizes &sizes, const detail::axis_map &rows,
        const detail::axis_map &columns) {
    const int64_t bytes = sizes.element_bytes;
    planes_arrangement made;
    made.windows = choose_windows(columns, bytes == 8);
    made.vector = bytes == 2 && columns.dst % 2 == 0 ? 2 : 1;
    made.abreast = static_cast<int>(8 / bytes) / made.vector;
    planes_shape &shape = made.shape;
    shape.planes = sizes.planes;
    shape.plane_elements = static_cast<int32_t>(rows.dst * columns.dst);
    shape.outputs = static_cast<int32_t>(rows.src * columns.src);
    shape.dst_columns = static_cast<int32_t>(columns.dst);
    shape.src_rows = static_cast<int32_t>(rows.src);
    shape.src_columns = static_cast<int32_t>(columns.src);
    shape.words = shape.dst_columns / made.vector;
    shape.slot_lanes = even_lanes(shape.words);
    shape.gather_lanes = even_lanes(shape.src_columns);
    shape.line_shift = made.windows.shift;
    shape.fours = made.windows.fours;
    shape.line_pitch = static_cast<int32_t>(
            round_up(made.windows.row_sums, made.windows.align));
    const int64_t plane_bytes = shape.plane_elements * bytes;

    // Chunks begin at multiples of 16 bytes of diff_dst.
    int64_t unit = 1;
    while (unit * plane_bytes % 16 != 0)
        unit *= 2;
    const int64_t most_planes = round_up(sizes.planes, unit);

    // Instructions of a warp: counted in the machine code.
    const double held = made.abreast * made.vector;
    const double row_cost = 4.0 + (bytes == 2 ? 4.0 : 3.0) * held;
    const double finish_cost = 12.0 + held;
    const int window_taps
            = made.windows.taps > 0 ? made.windows.taps : 8 * shape.fours;
    const double gather_cost
            = 6.0 + window_taps * (1.0 + 1.0 / made.windows.align);
    // Bytes of memory that a multiprocessor of an H200 moves in a cycle.
    constexpr double memory_rate = 18.0;
    const double memory_cycles
            = static_cast<double>(plane_bytes + shape.outputs * bytes)
            / memory_rate;

    std::optional<planes_arrangement> best;
    double best_cost = 0;
    int64_t best_resident = 0;
    for (const int count : {1, 2, 4, 8}) {
        if (count > rows.src) break;
        const planes_segments cut = cut_segments(rows, count);
        std::copy(cut.segments.begin(), cut.segments.end(), shape.segments);
        shape.weights = static_cast<int32_t>(cut.weights.size());
        for (made.threads = 64; made.threads <= planes_most_threads;
                made.threads += 32) {
            if (made.threads % (32 * count) != 0) continue;
            shape.segment_threads = made.threads / count;
            shape.slots = shape.segment_threads / shape.slot_lanes;
            shape.gather_rows = made.threads / shape.gather_lanes;
            if (shape.slots == 0 || shape.gather_rows == 0) continue;
            const int64_t pass = int64_t {made.abreast} * shape.slots;
            int64_t before = 0;
            for (int64_t k = 1; before < most_planes; ++k) {
                // As many planes as go into k passes, at least a unit.
                const int64_t planes = std::min(
                        most_planes, std::max(unit, k * pass / unit * unit));
                if (planes == before) continue;
                if (planes * plane_bytes > 64 * 1024) break;
                before = planes;
                shape.chunk_planes = static_cast<int32_t>(planes);
                made.shared_bytes = place_shared(made, bytes);
                const int64_t resident
                        = planes_resident(made.shared_bytes, made.threads);
                if (resident == 0 || made.shared_bytes > sizes.shared_bytes)
                    break;
                shape.chunks = (sizes.planes + planes - 1) / planes;
                const int64_t blocks = std::min(
                        shape.chunks, resident * sizes.multiprocessors);
                const int64_t rounds = (shape.chunks + blocks - 1) / blocks;
                const auto warps = static_cast<double>(made.threads / 32);
                const auto walks
                        = static_cast<double>((planes + pass - 1) / pass);
                const auto gathers = static_cast<double>(
                        (planes * shape.src_rows + shape.gather_rows - 1)
                        / shape.gather_rows);
                const auto copies = static_cast<double>(
                        (planes * plane_bytes / 16 + made.threads - 1)
                        / made.threads);
                const double issued = warps
                        * (walks
                                        * (static_cast<double>(cut.most_rows)
                                                        * row_cost
                                                + static_cast<double>(
                                                          cut.most_src_rows)
                                                        * finish_cost
                                                + 25.0)
                                + gathers * gather_cost + copies * 6.0 + 80.0);
                // Few warps leave turns unused, few bytes on their way the
                // memory.
                const auto resident_blocks = static_cast<double>(resident);
                const double issue_cycles = issued / static_cast<double>(planes)
                        / 4.0 / std::min(1.0, resident_blocks * warps / 20.0);
                const double wait_cycles = memory_cycles
                        / std::min(1.0,
                                resident_blocks
                                        * static_cast<double>(
                                                planes * plane_bytes)
                                        / (40.0 * 1024));
                const double cost
                        = (std::max(issue_cycles, wait_cycles)
                                  + 0.5 * std::min(issue_cycles, wait_cycles))
                        * static_cast<double>(rounds * blocks * planes);
                if (!best || cost < best_cost) {
                    best_cost = cost;
                    best_resident = resident;
                    made.weights = cut.weights;
                    made.counts = cut.counts;
                    best = made;
                }
            }
        }
    }
    if (!best) return {};
    avoid_conflicts(*best, sizes, best_resident);
    return best;
}

} // namespace gradnn::gpu
