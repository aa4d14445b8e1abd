// The walk down the rows, common to the kernels of dense interpolations.
//
// sum_i = sum over p, q of wd[p] * wh[q] * diff_dst[p,q], vectors being rows.
//
// The rows of diff_src, over its planes, are one sequence, cut into runs. A
// walk takes the rows of diff_dst that feed a run in ascending order and adds
// each, several loaded ahead, to the two rows of diff_src that a row of the
// linear family feeds. A row of diff_src is emitted when the next row of
// diff_dst lies beyond it. Neighbouring runs both read the rows that feed both. A
// tap of weight 0 is never taken.
//
// Where the depth is resampled too, a run is of a few neighbouring planes of
// diff_src at once (depths), so that planes of diff_dst that feed two of them
// are read once; in place of a row of diff_dst comes for each depth the sum of
// the same row over the planes that feed it, ascending.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"

namespace gradnn::gpu::interpolation {

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
    int32_t depth_groups = 1; ///< of depths that are walked at once
    int32_t dst_rows = 1; ///< of a plane
    int32_t src_rows = 1;
    int32_t lets_start = 0; ///< let_later_work_start
};

template <typename Sum>
struct walk_tables {
    const line_row<Sum> *rows = nullptr;
    const line_reach *reach = nullptr;
    /// Only where the depth is resampled: of each group of depths the planes of
    /// diff_dst that feed any of them, at least one, and from `offset` on their
    /// weights, [plane][depth of the group], with zeros up to a multiple of
    /// `plane_multiple` planes.
    const line_column *depths = nullptr;
    const Sum *depth_weights = nullptr;
};

/// What the planes that go into one addition divide.
constexpr int plane_multiple = 12;

/// Warps of a block that walk.
constexpr int most_walk_warps = 8;

/// sum + weight * value, rounded once: what kernels share must not depend on
/// which of its products the compiler fuses.
__device__ inline float add_product(float sum, float weight, float value) {
    return __fmaf_rn(weight, value, sum);
}
__device__ inline double add_product(double sum, double weight, double value) {
    return __fma_rn(weight, value, sum);
}

/// sums[e] = from[e] + weight * values[e].
template <typename Sum, int count>
__device__ __forceinline__ void add_products(Sum (&sums)[count],
        const Sum (&from)[count], Sum weight, const Sum (&values)[count]) {
#pragma unroll
    for (int e = 0; e < count; ++e)
        sums[e] = add_product(from[e], weight, values[e]);
}
/// sums[e] = from[e].
template <typename Sum, int count>
__device__ __forceinline__ void copy_sums(
        Sum (&sums)[count], const Sum (&from)[count]) {
#pragma unroll
    for (int e = 0; e < count; ++e)
        sums[e] = from[e];
}
template <typename Sum, int count>
__device__ __forceinline__ void clear_sums(Sum (&sums)[count]) {
#pragma unroll
    for (int e = 0; e < count; ++e)
        sums[e] = 0;
}
/// The second of two rows becomes the first.
template <typename Sum, int count>
__device__ __forceinline__ void shift_sums(
        Sum (&low)[count], Sum (&high)[count]) {
#pragma unroll
    for (int e = 0; e < count; ++e) {
        low[e] = high[e];
        high[e] = 0;
    }
}
/// The second row begins: weight * values[e], or 0. From +0: -0 would tell a run
/// that goes on from one that begins.
template <typename Sum, int count>
__device__ __forceinline__ void begin_sums(
        Sum (&high)[count], Sum weight, const Sum (&values)[count]) {
#pragma unroll
    for (int e = 0; e < count; ++e)
        high[e] = weight != 0 ? add_product(Sum(0), weight, values[e]) : Sum(0);
}

template <typename Sum, int depths>
__device__ __forceinline__ bool any_weight(const Sum (&weights)[depths]) {
    bool any = false;
#pragma unroll
    for (int d = 0; d < depths; ++d)
        any = any || weights[d] != 0;
    return any;
}

/// Walks one run, which must exist; first waits for the work ahead of the kernel
/// on its stream. `load(i, from, wanted)` submits copies (copy_async) of a row to
/// slot i if `wanted`; they have arrived when `gather`, `add` or `shift_add` is
/// called. `add(i, low_weight, high_weight)` adds slot i to the sums of the two
/// rows; `emit(to, 0)` writes the sums of the lower row; `shift()` makes the higher
/// row the lower; `shift_add` is a shift and an add at once. `from` and `to`
/// start at the caller's bases. All threads of a block or warp that share a run
/// call these at the same time.
///
/// Where the depth is resampled (volume), `gather(i, weights, first)` takes the
/// slots i to i + planes - 1, the same row of neighbouring planes, and adds each
/// times weights[plane][depth] to the sum of the row for that depth, one after
/// the other; a weight of 0 is none (and a slot without any is empty). Sums begin
/// anew where `first`. `add` and `shift_add` then add those sums, and `emit` is
/// called for each depth. The bits depend neither on `planes` nor on `depths`.
///
/// There are ahead * planes slots (planes and depths are 1 but in volumes); all
/// but the last `planes` of them are on their way at any time. What a slot holds
/// may be read by the thread that loaded it and by the others of its warp, or
/// where `block_wide` of its block. Rows are added in the order in which they are
/// loaded, each in a step that loads another first, `ahead - 1` rows later. The
/// numbers of the slots are constants where `unrolled` (and not in volumes).
template <bool volume, int ahead, int planes, int depths,
        bool block_wide = false, bool unrolled = true, typename Type,
        typename Sum, typename Load, typename Gather, typename Add,
        typename Emit, typename Shift, typename ShiftAdd>
__device__ __forceinline__ void walk_rows(const walk_shape &shape,
        const walk_tables<Sum> &tables, int64_t run, const Type *dst_base,
        Type *src_base, const Load &load, const Gather &gather, const Add &add,
        const Emit &emit, const Shift &shift, const ShiftAdd &shift_add) {
    // A run's offsets stay below 2^31 (cut_runs sees to it): with such an offset
    // an address costs one instruction.
    using offset = std::conditional_t<volume, int64_t, int32_t>;
    int64_t first_plane = 0;
    int first_in_plane = 0;
    int rows = 0;
    int64_t last_plane = 0;
    if constexpr (volume) {
        const int64_t part = run / shape.depth_groups;
        first_plane = part / shape.plane_runs; // the group
        first_in_plane = static_cast<int>(
                (part - first_plane * shape.plane_runs) * shape.rows_per_run);
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
    int out_depth = 0;
    int out_depths = 1;
    line_column taps; // of the depths
    int chunks = 1; // of so many planes that feed them
    int steps = static_cast<int>(last_plane - plane) * shape.dst_rows + end_row
            - row;
    if constexpr (volume) {
        group = first_plane;
        const auto depth_group = static_cast<int>(run % shape.depth_groups);
        out_depth = depth_group * depths;
        out_depths = min(depths, shape.src_depths - out_depth);
        taps = tables.depths[depth_group];
        chunks = (taps.count + planes - 1) / planes;
        steps = max(steps, 0) * chunks;
    }

    const Type *const from = dst_base + group * shape.dst_group_pitch
            + row * shape.dst_row_pitch
            + (volume ? taps.first * shape.dst_depth_pitch : 0);
    Type *const to = src_base + first_plane * shape.src_group_pitch
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
#pragma unroll
            for (int d = 0; d < depths; ++d)
                if (d == 0 || d < out_depths)
                    emit(to + out_at + d * shape.src_depth_pitch, d);
            out_at += out_pitch;
            if (--out_left == 0) {
                out_left = shape.src_rows;
                out_at += out_skip;
            }
        }
        --left;
    };

    if (steps > 0)
        left = rows + tables.rows[row].finished
                - (before + tables.rows[row].low);
    wait_for_earlier_work();
    if (shape.lets_start != 0) let_later_work_start();
    if (steps > 0) {
        // What a row is weighted by comes with it, for the whole warp.
        __shared__ line_row<Sum> weights_of_block[most_walk_warps][ahead];
        line_row<Sum> *const weights_of = weights_of_block[threadIdx.x / 32];
        const bool fetches = threadIdx.x % 32 == 0;
        offset at = 0;
        const auto pitch = static_cast<offset>(shape.dst_row_pitch);
        const auto turn = static_cast<offset>(shape.dst_group_pitch
                - (shape.dst_rows - 1) * shape.dst_row_pitch);
        int to_load = steps;
        int load_tap = 0;
        // Past the last row it loads that again, and none looks at it.
        // Inlined, so that what the caller keeps of a slot has a fixed place.
        const auto load_next = [&](int slot) __attribute__((always_inline)) {
            const Type *place = from + at;
            if constexpr (volume) place += load_tap * shape.dst_depth_pitch;
#pragma unroll
            for (int k = 0; k < planes; ++k) {
                load(slot * planes + k, place,
                        k == 0 || load_tap + k < taps.count);
                place += shape.dst_depth_pitch;
            }
            if (fetches) {
                constexpr int parts = sizeof(line_row<Sum>) / 16;
#pragma unroll
                for (int part = 0; part < parts; ++part)
                    copy_async<16>(
                            reinterpret_cast<uint4 *>(weights_of + slot) + part,
                            reinterpret_cast<const uint4 *>(tables.rows + row)
                                    + part);
            }
            commit_copies();
            if (--to_load <= 0) return;
            if constexpr (volume) {
                load_tap += planes;
                if (load_tap < taps.count) return;
                load_tap = 0;
            }
            const bool is_last = row + 1 == shape.dst_rows;
            at += is_last ? turn : pitch;
            row = is_last ? 0 : row + 1;
        };
        static_assert(ahead >= 2);
#pragma unroll
        for (int i = 0; i < ahead - 1; ++i)
            load_next(i);

        int chunk = 0;
        Sum plane_weights[planes][depths];
        const auto weigh_planes = [&] {
            static_assert(plane_multiple % planes == 0);
            constexpr int count = planes * depths;
            constexpr int widest = 16 / static_cast<int>(sizeof(Sum));
            constexpr int each = count % widest == 0 ? widest
                    : count % 2 == 0                 ? 2
                                                     : 1;
            const Sum *const weights
                    = tables.depth_weights + taps.offset + chunk * count;
#pragma unroll
            for (int i = 0; i < count; i += each) {
                Sum some[each];
                pack<Sum, each>::load_constant(weights + i).unpack(some);
#pragma unroll
                for (int k = 0; k < each; ++k)
                    plane_weights[(i + k) / depths][(i + k) % depths] = some[k];
            }
        };
        if constexpr (volume) weigh_planes();

        const auto walk = [&] {
#pragma unroll 1
            while (true) {
#pragma unroll(unrolled ? ahead : 1)
                for (int i = 0; i < ahead; ++i) {
                    wait_for_copies<ahead - 2>();
                    if constexpr (block_wide)
                        __syncthreads();
                    else
                        __syncwarp();
                    // The slot of the step before: all have read it.
                    load_next((i + ahead - 1) % ahead);
                    const line_row<Sum> by = weights_of[i];
                    if constexpr (volume) {
                        gather(i * planes, plane_weights, chunk == 0);
                        const bool more = ++chunk < chunks;
                        if (!more) chunk = 0;
                        if (chunks > 1) weigh_planes(); // for the next step
                        if (more) {
                            --steps;
                            continue;
                        }
                    }
                    int finished = by.finished;
                    if (finished > 0) {
                        finish_row();
#pragma unroll 1
                        for (; finished > 1; --finished) {
                            shift();
                            finish_row();
                        }
                        shift_add(i * planes, by.low_weight, by.high_weight);
                    } else {
                        add(i * planes, by.low_weight, by.high_weight);
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

} // namespace gradnn::gpu::interpolation
