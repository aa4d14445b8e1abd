// How the planes kernel (kernel.cuh) cuts a problem: chunks,
// segments, the threads' work. Decided at compile from an estimate of cycles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gpu/interpolation/planes/banks.hpp"

namespace gradnn::gpu::interpolation::planes {

/// Lanes for so many: where it leaves few idle, a power of two, which makes all
/// warps alike and leaves room to shun bank conflicts.
inline int32_t even_lanes(int64_t count) {
    int64_t lanes = 1;
    while (lanes < count)
        lanes *= 2;
    return static_cast<int32_t>(
            lanes <= 32 && count * 100 >= lanes * 85 ? lanes : count);
}

/// An estimate for all the blocks, in cycles.
inline double cycles_of(const arranged_work &made, const row_segments &cut,
        const problem_sizes &sizes, int64_t resident) {
    const work_cut &shape = made.shape;
    const int64_t planes = shape.chunk_planes;
    const int64_t bytes = sizes.element_bytes;
    const int64_t plane_bytes = shape.plane_elements * bytes;
    const auto number
            = [](int64_t value) { return static_cast<double>(value); };
    // Instructions of a warp: counted in the machine code.
    const double held = made.abreast * made.vector;
    const double row_cost = 4.0 + (bytes == 2 ? 4.0 : 3.0) * held;
    const double finish_cost = 12.0 + held;
    const int window_taps
            = made.windows.taps > 0 ? made.windows.taps : 8 * shape.fours;
    const double gather_cost
            = 6.0 + window_taps * (1.0 + 1.0 / made.windows.align);
    const double memory_cycles = number(plane_bytes + shape.outputs * bytes)
            / sizes.sm.bytes_a_cycle;

    const int64_t blocks
            = std::min<int64_t>(shape.chunks, resident * sizes.multiprocessors);
    const int64_t rounds = ceil_div(shape.chunks, blocks);
    const double warps = number(made.threads / 32);
    const double walks
            = number(ceil_div(planes, int64_t {made.abreast} * shape.slots));
    const double gathers
            = number(ceil_div(planes * shape.src_rows, shape.gather_rows));
    const double copies
            = number(ceil_div(planes * plane_bytes / 16, made.threads));
    const double issued = warps
            * (walks
                            * (number(cut.most_rows) * row_cost
                                    + number(cut.most_src_rows) * finish_cost
                                    + 25.0)
                    + gathers * gather_cost + copies * 11.0 + 90.0);
    // Few warps leave cycles unused, few bytes on their way the memory.
    const double at_once = number(resident);
    const double issue_cycles = issued / number(planes) / 4.0
            / std::min(1.0, at_once * warps / 20.0);
    const double wait_cycles = memory_cycles
            / std::min(1.0,
                    at_once * number(planes * plane_bytes)
                            / sizes.sm.bytes_on_their_way);
    return (std::max(issue_cycles, wait_cycles)
                   + 0.5 * std::min(issue_cycles, wait_cycles))
            * number(rounds * blocks * planes);
}

/// Nothing where no chunk fits.
inline std::optional<arranged_work> arrange(const problem_sizes &sizes,
        const detail::axis_map &rows, const detail::axis_map &columns) {
    const int64_t bytes = sizes.element_bytes;
    arranged_work made;
    made.windows = choose_windows(columns, bytes == 8);
    made.vector = bytes == 2 && columns.dst % 2 == 0 ? 2 : 1;
    made.abreast = static_cast<int>(8 / bytes) / made.vector;
    work_cut &shape = made.shape;
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

    std::optional<arranged_work> best;
    double best_cost = 0;
    int64_t best_resident = 0;
    for (const int count : {1, 2, 4, 8}) {
        if (count > rows.src) break;
        const row_segments cut = cut_segments(rows, count);
        std::copy(cut.segments.begin(), cut.segments.end(), shape.segments);
        shape.weights = static_cast<int32_t>(cut.weights.size());
        for (made.threads = 64; made.threads <= most_threads;
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
                const int64_t resident = blocks_resident(
                        sizes.sm, made.shared_bytes, made.threads);
                if (resident == 0 || made.shared_bytes > sizes.shared_bytes)
                    break;
                const int64_t chunks = ceil_div(sizes.planes, planes);
                if (chunks > int64_t {1} << 29) continue;
                shape.chunks = static_cast<int32_t>(chunks);
                shape.last_planes = static_cast<int32_t>(
                        sizes.planes - (chunks - 1) * planes);
                const double cost = cycles_of(made, cut, sizes, resident);
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
    avoid_conflicts(*best, sizes, static_cast<int32_t>(unit), best_resident);
    return best;
}

} // namespace gradnn::gpu::interpolation::planes
