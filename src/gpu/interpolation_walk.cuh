// The walk down the rows, common to the kernels of dense interpolations.
//
// sum_i = sum over p, q of wd[p] * wh[q] * diff_dst[p,q], vectors being rows.
//
// The rows of diff_src, over its planes, are one sequence, cut into runs. A
// walk takes the rows of diff_dst that feed a run in ascending order (where the
// depth is resampled too: for each of them the planes p that feed the depth,
// ascending) and adds each, several loaded ahead, to the two rows of diff_src
// that a row of the linear family feeds. A row of diff_src is emitted when the
// next row of diff_dst lies beyond it. Neighbouring runs read the rows that
// both want. A tap of weight 0 is never taken.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/async_copy.cuh"
#include "gpu/dtype.cuh"

namespace gradnn::gpu {

/// One row of diff_dst: the source row `low` and, where high_weight is not 0,
/// the next one. `finished` source rows come before it and after the `low` of
/// the row before it, which for the first row of a plane is the last of one.
template <typename Sum>
struct alignas(4 * sizeof(Sum)) line_row {
    Sum low_weight = 0;
    Sum high_weight = 0;
    int32_t low = 0;
    int32_t finished = 0;
};

/// Source row i is fed by rows first <= h < end that no row of lower or higher
/// number shares but its neighbours: the walk down to it starts at `first` and
/// that to the rows up to it ends before `end`.
struct line_reach {
    int32_t first = 0;
    int32_t end = 0;
};

/// Taps of one source column or depth.
struct line_column {
    int32_t first = 0;
    int32_t count = 0;
    int64_t offset = 0; ///< in the weights
};

/// Pitches in elements. A plane of diff_src is a depth of a group; groups are
/// at even distances. Where the depth is not resampled, there is one depth.
struct walk_shape {
    int64_t dst_group_pitch = 0;
    int64_t src_group_pitch = 0;
    int64_t dst_depth_pitch = 0;
    int64_t src_depth_pitch = 0;
    int64_t dst_row_pitch = 0;
    int64_t src_row_pitch = 0;
    int64_t row_total = 0; ///< of diff_src, over groups and depths
    int64_t rows_per_run = 1;
    /// Where the depth is resampled, runs lie within planes: so many in each,
    /// and neighbouring runs are those of neighbouring depths, which read the
    /// same planes of diff_dst at about the same time. Else 0.
    int32_t plane_runs = 0;
    int32_t src_depths = 1;
    int32_t dst_rows = 1; ///< of a plane
    int32_t src_rows = 1;
};

template <typename Sum>
struct walk_tables {
    const line_row<Sum> *rows = nullptr;
    const line_reach *reach = nullptr;
    /// Of each source depth, at least one: a depth that none feeds has one of
    /// weight 0. Only where the depth is resampled.
    const line_column *depths = nullptr;
    const Sum *depth_weights = nullptr;
};

/// Warps of a block that walk.
constexpr int most_walk_warps = 8;

/// Walks one run, which must exist. `load(i, from)` submits copies (copy_async)
/// of a row to slot i of `ahead`, which are there when `add` or `shift_add` is
/// called; `add(i, low_weight, high_weight)` adds slot i to the sums of the
/// two rows; `emit(to)` writes the sums of the lower row; `shift()` makes the
/// higher row the lower; `shift_add` is a shift and an add at once. `from` and
/// `to` start at the caller's bases. All threads of a block or warp that share
/// a run call these at the same time.
///
/// ahead - 1 slots are on their way at any time. What a slot holds may be read
/// by the thread that loaded it and by the others of its warp, or where
/// `block_wide` of its block.
template <bool volume, int ahead, bool block_wide = false, typename Type,
        typename Sum, typename Load, typename Add, typename Emit,
        typename Shift, typename ShiftAdd>
__device__ __forceinline__ void walk_rows(const walk_shape &shape,
        const walk_tables<Sum> &tables, int64_t run, const Type *dst_base,
        Type *src_base, const Load &load, const Add &add, const Emit &emit,
        const Shift &shift, const ShiftAdd &shift_add) {
    // A run's offsets stay below 2^31 (cut_runs sees to it): with such an offset
    // an address costs one instruction.
    using offset = std::conditional_t<volume, int64_t, int32_t>;
    int64_t first_plane = 0;
    int first_in_plane = 0;
    int rows = 0;
    int64_t last_plane = 0;
    if constexpr (volume) {
        const int64_t part = run / shape.src_depths;
        const int64_t number = part / shape.plane_runs;
        first_plane = number * shape.src_depths + run % shape.src_depths;
        first_in_plane = static_cast<int>((part - number * shape.plane_runs)
                * shape.rows_per_run);
        rows = min(static_cast<int>(shape.rows_per_run),
                shape.src_rows - first_in_plane);
        last_plane = first_plane;
    } else {
        const int64_t first_row = run * shape.rows_per_run;
        rows = static_cast<int>(
                min(shape.rows_per_run, shape.row_total - first_row));
        first_plane = first_row / shape.src_rows;
        first_in_plane
                = static_cast<int>(first_row - first_plane * shape.src_rows);
        last_plane = (first_row + rows - 1) / shape.src_rows;
    }
    const auto last_row = static_cast<int>(first_in_plane + rows - 1
            - (last_plane - first_plane) * shape.src_rows);

    int row = tables.reach[first_in_plane].first;
    const int end_row = tables.reach[last_row].end;
    int64_t plane = first_plane;
    // Source rows of the run before the plane that `row` is in.
    int before = -first_in_plane;
    if (row == shape.dst_rows) {
        row = 0;
        before += shape.src_rows;
        ++plane;
    }

    int64_t group = plane;
    int depth = 0;
    int64_t out_group = first_plane;
    int out_depth = 0;
    line_column taps;
    int steps = 0;
    if constexpr (volume) {
        group = plane / shape.src_depths;
        depth = static_cast<int>(plane - group * shape.src_depths);
        out_group = first_plane / shape.src_depths;
        out_depth = static_cast<int>(
                first_plane - out_group * shape.src_depths);
        int at = depth;
        for (int64_t p = plane; p <= last_plane; ++p) {
            const int begin = p == plane ? row : 0;
            const int end = p == last_plane ? end_row : shape.dst_rows;
            steps += max(end - begin, 0) * tables.depths[at].count;
            if (++at == shape.src_depths) at = 0;
        }
        taps = tables.depths[depth];
    } else {
        steps = static_cast<int>(last_plane - plane) * shape.dst_rows + end_row
                - row;
    }

    const Type *const from = dst_base + group * shape.dst_group_pitch
            + row * shape.dst_row_pitch
            + (volume ? taps.first * shape.dst_depth_pitch : 0);
    Type *const to = src_base + out_group * shape.src_group_pitch
            + first_in_plane * shape.src_row_pitch
            + out_depth * shape.src_depth_pitch;

    // Rows of diff_src, the first `rows` of which are written: what comes
    // before them belongs to the run before.
    offset out_at = 0;
    int left = rows;
    int out_left = shape.src_rows - first_in_plane;
    const auto out_pitch = static_cast<offset>(shape.src_row_pitch);
    const auto out_skip = static_cast<offset>(
            shape.src_group_pitch - shape.src_rows * shape.src_row_pitch);
    const auto finish_row = [&] {
        if (left <= rows) {
            emit(to + out_at);
            out_at += out_pitch;
            if (--out_left == 0) {
                out_left = shape.src_rows;
                if constexpr (volume) {
                    out_at += shape.src_depth_pitch
                            - shape.src_rows * shape.src_row_pitch;
                    if (++out_depth == shape.src_depths) {
                        out_depth = 0;
                        out_at += shape.src_group_pitch
                                - shape.src_depths * shape.src_depth_pitch;
                    }
                } else {
                    out_at += out_skip;
                }
            }
        }
        --left;
    };

    if (steps > 0) {
        left = rows + tables.rows[row].finished
                - (before + tables.rows[row].low);

        // What a slot's row is weighted by comes with it, for the whole warp.
        struct alignas(32) row_weights {
            line_row<Sum> by;
            Sum depth = 0;
        };
        __shared__ row_weights weights_of_block[most_walk_warps][ahead];
        row_weights *const weights_of = weights_of_block[threadIdx.x / 32];
        const bool fetches = threadIdx.x % 32 == 0;
        bool is_first_tap[ahead];
        offset at = 0;
        const auto pitch = static_cast<offset>(shape.dst_row_pitch);
        const auto turn = static_cast<offset>(shape.dst_group_pitch
                - (shape.dst_rows - 1) * shape.dst_row_pitch);
        int to_load = steps;
        int load_tap = 0;
        int load_depth = depth;
        line_column load_taps = taps;
        // Past the last row it loads that again, and none looks at it.
        const auto load_next = [&](int slot) {
            load(slot, from + at);
            row_weights &weights = weights_of[slot];
            if (fetches) {
                constexpr int parts = sizeof(line_row<Sum>) / 16;
#pragma unroll
                for (int part = 0; part < parts; ++part)
                    copy_async<16>(
                            reinterpret_cast<uint4 *>(&weights.by) + part,
                            reinterpret_cast<const uint4 *>(tables.rows + row)
                                    + part);
                if constexpr (volume)
                    copy_async<sizeof(Sum)>(&weights.depth,
                            tables.depth_weights + load_taps.offset + load_tap);
            }
            commit_copies();
            if constexpr (volume) is_first_tap[slot] = load_tap == 0;
            if (--to_load <= 0) return;
            if constexpr (volume) {
                if (++load_tap < load_taps.count) {
                    at += shape.dst_depth_pitch;
                    return;
                }
                load_tap = 0;
                at += shape.dst_row_pitch
                        - (load_taps.count - 1) * shape.dst_depth_pitch;
                if (++row < shape.dst_rows) return;
                row = 0;
                at -= shape.dst_rows * shape.dst_row_pitch
                        + load_taps.first * shape.dst_depth_pitch;
                if (++load_depth == shape.src_depths) {
                    load_depth = 0;
                    at += shape.dst_group_pitch;
                }
                load_taps = tables.depths[load_depth];
                at += load_taps.first * shape.dst_depth_pitch;
            } else {
                const bool is_last = row + 1 == shape.dst_rows;
                at += is_last ? turn : pitch;
                row = is_last ? 0 : row + 1;
            }
        };
        static_assert(ahead >= 2);
#pragma unroll
        for (int i = 0; i < ahead - 1; ++i)
            load_next(i);

        const auto walk = [&] {
#pragma unroll 1
            while (true) {
#pragma unroll
                for (int i = 0; i < ahead; ++i) {
                    wait_for_copies<ahead - 2>();
                    if constexpr (block_wide)
                        __syncthreads();
                    else
                        __syncwarp();
                    // The slot of the step before: all have read it.
                    load_next((i + ahead - 1) % ahead);
                    const line_row<Sum> by = weights_of[i].by;
                    Sum low_weight = by.low_weight;
                    Sum high_weight = by.high_weight;
                    int finished = by.finished;
                    if constexpr (volume) {
                        low_weight *= weights_of[i].depth;
                        high_weight *= weights_of[i].depth;
                        finished = is_first_tap[i] ? finished : 0;
                    }
                    if (finished == 0) {
                        add(i, low_weight, high_weight);
                    } else {
                        finish_row();
#pragma unroll 1
                        for (; finished > 1; --finished) {
                            shift();
                            finish_row();
                        }
                        shift_add(i, low_weight, high_weight);
                    }
                    if (--steps == 0) return;
                }
            }
        };
        walk();
        wait_for_copies<0>(); // the shared memory may be used anew
    }
#pragma unroll 1
    while (left > 0) {
        finish_row();
        shift();
    }
}

} // namespace gradnn::gpu
