// Where the planes kernel (kernel.cuh) has its data in shared
// memory: places, and the bank conflicts that follow from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/device/banks.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/interpolation/planes/tables.hpp"
#include "gpu/runtime/multiprocessor.hpp"

namespace gradnn::gpu::interpolation::planes {

struct problem_sizes {
    int64_t planes = 0;
    int64_t element_bytes = 0;
    int64_t multiprocessors = 1;
    int64_t shared_bytes = 0; ///< that a block may ask for
    multiprocessor sm;
};

struct arranged_work {
    work_cut shape;
    int vector = 1;
    int abreast = 1;
    int threads = 0;
    int64_t shared_bytes = 0;
    column_windows windows;
    std::vector<weighted_row<double>> weights; ///< of rows
    std::vector<int32_t> counts;
    std::vector<int32_t> order; ///< [slot]: its first plane
};

/// Sets the places in shared memory; returns its bytes.
inline int64_t place_shared(arranged_work &made, int64_t element_bytes) {
    work_cut &shape = made.shape;
    const int64_t sum_bytes = element_bytes == 8 ? 8 : 4;
    const int64_t plane_bytes = shape.plane_elements * element_bytes;
    // The chunk's planes, and those that fill up the last pass.
    const int64_t planes = round_up(
            shape.chunk_planes, int64_t {shape.slots} * made.abreast);
    const int64_t group_bytes = shape.group_planes * plane_bytes
            + shape.group_gap * element_bytes;
    const auto bytes_of = [&](int64_t count) {
        return round_up(round_up(count, shape.group_planes) / shape.group_planes
                        * group_bytes,
                16);
    };
    const int64_t stage = bytes_of(shape.chunk_planes);
    // Windows reach beyond the last row.
    const int64_t sums = round_up(planes * shape.src_rows * shape.line_pitch
                    + std::max(made.windows.taps, 4 * made.windows.fours),
            4);
    const int64_t line_at = 2 * stage;
    const int64_t weights_at = round_up(line_at + sums * sum_bytes, 16);
    const int64_t counts_at = weights_at + shape.weights * 2 * sum_bytes;
    const int64_t end = std::max(
            counts_at + shape.src_rows * 4, stage + bytes_of(planes));
    constexpr int64_t most = int64_t {1} << 30;
    if (end > most) return most;
    shape.stage_bytes = static_cast<int32_t>(stage);
    shape.line_at = static_cast<int32_t>(line_at);
    shape.weights_at = static_cast<int32_t>(weights_at);
    shape.counts_at = static_cast<int32_t>(counts_at);
    shape.line_sums = static_cast<int32_t>(sums);
    return end;
}

/// Blocks that a multiprocessor holds, by the kernel's launch bounds; the estimate of
/// cycles was fitted to 16 at most.
inline int64_t blocks_resident(
        const multiprocessor &sm, int64_t shared_bytes, int threads) {
    constexpr int64_t most = 16;
    return std::min(most,
            sm.blocks_held(
                    threads, sm.registers_for(resident_threads), shared_bytes));
}

/// Where a plane of a chunk lies in its stage, in elements.
constexpr int64_t place_of(const work_cut &shape, int64_t plane) {
    return plane * shape.plane_elements
            + plane / shape.group_planes * shape.group_gap;
}

/// Puts a gap behind groups of `planes`. False where planes that a thread sums
/// would not be at even distances.
inline bool set_gap(arranged_work &made, int32_t planes, int32_t gap,
        int64_t element_bytes) {
    work_cut &shape = made.shape;
    const int32_t pass = made.abreast * shape.slots;
    if (gap == 0) planes = 1;
    const bool apart = shape.abreast_planes % planes == 0;
    const bool together
            = shape.abreast_planes == 1 && planes % made.abreast == 0;
    if (pass % planes != 0 || (!apart && !together)) return false;
    shape.group_planes = planes;
    shape.group_gap = gap;
    shape.group_reciprocal = 0;
    if (gap > 0) {
        const int64_t pieces
                = planes * shape.plane_elements * element_bytes / 16;
        if (pieces < 2) return false; // its reciprocal has no room
        shape.group_reciprocal = static_cast<uint32_t>(
                ((int64_t {1} << 32) + pieces - 1) / pieces);
    }
    shape.abreast_elements
            = static_cast<int32_t>(place_of(shape, shape.abreast_planes));
    shape.pass_elements = static_cast<int32_t>(place_of(shape, pass));
    return true;
}

/// Turns of all warps for the windows of one pass.
inline int64_t window_turns(const arranged_work &made, int64_t element_bytes) {
    const work_cut &shape = made.shape;
    const int64_t sum_bytes = element_bytes == 8 ? 8 : 4;
    return shared_turns(made.threads, sum_bytes * made.windows.align,
            [&](int thread) -> int64_t {
                const int row = thread / shape.gather_lanes;
                const int j = thread % shape.gather_lanes;
                if (row >= shape.gather_rows || j >= shape.src_columns)
                    return -1;
                return (int64_t {row} * shape.line_pitch
                               + made.windows.places[static_cast<size_t>(j)])
                        * sum_bytes;
            });
}

/// Orders the planes so that those side by side in a warp conflict least, slot
/// by slot; returns the turns of one segment's warps for a walk down the rows.
inline int64_t order_planes(arranged_work &made, int64_t element_bytes) {
    const work_cut &shape = made.shape;
    const int64_t sum_bytes = element_bytes == 8 ? 8 : 4;
    // Of accesses to what begins at element `first(plane)`.
    const auto turns_at = [&](int warp, int64_t bytes, int64_t each,
                                  const auto &first) {
        return shared_turns(32, bytes, [&](int lane) -> int64_t {
            const int thread = warp * 32 + lane;
            const auto slot = static_cast<size_t>(thread / shape.slot_lanes);
            const int word = thread % shape.slot_lanes;
            if (slot >= made.order.size() || word >= shape.words) return -1;
            return (first(int64_t {made.order[slot]}) + word * made.vector)
                    * each;
        });
    };
    const auto turns_of = [&](int warp) {
        const int reads
                = turns_at(warp, made.vector * element_bytes, element_bytes,
                        [&](int64_t plane) { return place_of(shape, plane); });
        const int writes
                = turns_at(warp, sum_bytes, sum_bytes, [&](int64_t plane) {
                      return plane * shape.src_rows * shape.line_pitch;
                  });
        return int64_t {made.abreast}
        * (reads * shape.weights + writes * made.vector * shape.src_rows);
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

/// Sets the pitch of the line, the gaps in the stages and the order of planes
/// that give the fewest bank conflicts at the same number of resident blocks.
/// `unit` planes are whole pieces of 16 bytes.
inline void avoid_conflicts(arranged_work &made, const problem_sizes &sizes,
        int32_t unit, int64_t resident) {
    const int64_t bytes = sizes.element_bytes;
    const int64_t pass = int64_t {made.abreast} * made.shape.slots;
    const int64_t walks = round_up(made.shape.chunk_planes, pass) / pass;
    const int64_t gathers = int64_t {made.shape.chunk_planes}
            * made.shape.src_rows / made.shape.gather_rows;
    const int64_t reads = std::max(made.windows.taps, 4 * made.windows.fours)
            / made.windows.align;
    arranged_work best = made;
    int64_t least = -1;
    const auto judge = [&](int32_t gap, int32_t apart, int32_t pitch) {
        arranged_work tried = made;
        tried.shape.line_pitch = pitch;
        tried.shape.abreast_planes = apart;
        if (!set_gap(tried, unit, gap, bytes)) return;
        tried.shared_bytes = place_shared(tried, bytes);
        if (tried.shared_bytes > sizes.shared_bytes
                || blocks_resident(sizes.sm, tried.shared_bytes, tried.threads)
                        < resident)
            return;
        const int64_t turns = walks * order_planes(tried, bytes)
                + gathers * reads * window_turns(tried, bytes);
        if (least >= 0 && turns >= least) return;
        least = turns;
        best = tried;
    };
    const auto piece = static_cast<int32_t>(16 / bytes);
    const int32_t pitch = made.shape.line_pitch;
    for (int32_t pad = 0; pad < 4; ++pad)
        for (const int32_t apart : {made.shape.slots, 1})
            for (int32_t gap = 0; gap < 8 * piece; gap += piece)
                judge(gap, apart, pitch + pad * made.windows.align);
    made = best;
}

} // namespace gradnn::gpu::interpolation::planes
