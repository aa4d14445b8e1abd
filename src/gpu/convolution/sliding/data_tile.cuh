// A thread's tile and place, and the rows that it has on their way (data.cuh).
#pragma once

#include "gpu/convolution/sliding/data_again.cuh"

namespace gradnn::gpu::sliding {

template <const data_specification &s>
struct data_tile {
    static constexpr problem_specification p = s.of;
    static constexpr data_cut cut = s.cut;
    static constexpr data_geometry g = geometry_of(s);
    static constexpr bool staged = cut.staged != staging::none;
    static constexpr bool staged_read = cut.staged == staging::all;
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    static constexpr int channels = cut.vector * p.multiplier;
    using vector = jit::elements<p.type, g.loaded>;
    /// From a row that is read to the next one.
    static constexpr int row_step = p.row.parts() ? p.row.dilation : p.row.step;

    // Where the thread is.
    int image, channel, in_class, first_row, last_row, first_depth,
            first_column;
    int read_column, read_depth;
    // Its tile.
    sum_type weights[p.multiplier][p.depth.taps][p.row.taps][p.column.taps]
                    [cut.vector];
    sum_type open[g.walk.open][cut.depths][cut.columns][cut.vector];
    vector rows[g.copied ? 1 : cut.ahead][g.walk.phases][g.depth_slots]
               [g.pieces][g.units.count];
    static constexpr int units_of_row
            = g.walk.phases * g.depth_slots * g.pieces * g.units.count;
    /// Few vectors of rows in registers leave the ring together, and are waited for once.
    static constexpr bool grouped = !g.copied && cut.ahead >= 4
            && cut.ahead == cut.unroll && units_of_row <= 8;
    vector taken[grouped ? cut.ahead : 1][g.walk.phases][g.depth_slots]
                [g.pieces][g.units.count];
    using copied_rows
            = jit::rows_on_their_way<vector, units_of_row, cut.threads>;
    copied_rows on_their_way;
    // What ops behind the problem read where the thread writes: copied with the rows, or
    // of some rows of results in registers.
    static constexpr int ops = staged ? 0 : epilogues_of(p);
    using written_unit = jit::elements<p.type, g.write_vector>;
    static constexpr int columns_at_once = p.channels_last ? 1 : g.write_vector;
    static constexpr int units_written
            = cut.depths * cut.columns / columns_at_once;
    static constexpr int other_units = ops == 0 ? 1 : ops * units_written;
    static constexpr int others_held = ops == 0
            ? 1
            : most(g.copied ? 1 : p.row.up * (grouped ? cut.unroll : 1),
                    least(32 / other_units, g.walk.open - p.row.up));
    written_unit other_rows[others_held][other_units];
    jit::rows_on_their_way<written_unit, other_units, cut.threads> other_copies;
    int oldest, newest; ///< slots of groups of rows
    bool column_inside[g.units.count], depth_inside[g.depth_slots];
    // Where it reads and writes.
    const type *read, *all_weights, *next;
    int next_step, last_step; ///< next_step: whose rows are at `next`
    type *written;
    long long depth_pitch, row_pitch, column_pitch;
    const type *read_from; ///< for write_again
    fused_places others;

    __device__ void begin_at(int column, int depth) {
        first_column = column;
        read_column = column * p.column.step / p.column.up;
        first_depth = depth;
        read_depth = depth * p.depth.step / p.depth.up;
    }
    __device__ void find_outside() {
#pragma unroll
        for (int unit = 0; unit < g.units.count; ++unit)
            column_inside[unit]
                    = g.units.is_inside(unit, read_column, p.column.read);
#pragma unroll
        for (int slot = 0; slot < g.depth_slots; ++slot)
            depth_inside[slot] = g.depth_always_inside[slot]
                    || static_cast<unsigned>(read_depth + slot + g.first_depth)
                            < static_cast<unsigned>(p.depth.read);
    }

    __device__ void load_weights(const sum_type *shared, int lane) {
        for_each<p.multiplier, p.depth.taps, p.row.taps, p.column.taps,
                cut.vector>([&](int m, int kd, int kh, int kw, int v) {
            weights[m][kd][kh][kw][v] = shared
                    ? shared[shared_weight(
                            lane * cut.vector + v, m, kd, kh, kw)]
                    : widen<p.type>(*(all_weights
                            + weight_at<p>(channel + v, m, kd, kh, kw)));
        });
    }
    __device__ static constexpr int shared_weight(
            int of_channel, int m, int kd, int kh, int kw) {
        return (((of_channel * p.multiplier + m) * p.depth.taps + kd)
                               * p.row.taps
                       + kh)
                * p.column.taps
                + kw;
    }

    __device__ static constexpr int copied_unit(int f, int z, int m, int unit) {
        return ((f * g.depth_slots + z) * g.pieces + m) * g.units.count + unit;
    }

    /// Calls body(phase, depth, piece, unit) for the vectors of a row that are used.
    template <typename Body>
    __device__ __forceinline__ static void for_each_unit(const Body &body) {
        for_each<g.walk.phases, g.depth_slots, g.pieces, g.units.count>(
                [&](int f, int z, int m, int unit) {
                    if (g.phase_used[f] && g.depth_used[z]
                            && g.units.used[unit])
                        body(f, z, m, unit);
                });
    }

    __device__ type *row_at(int row) const {
        return written
                + static_cast<long long>(row) * g.walk.classes
                * (staged ? p.column.written : p.written.row);
    }
    __device__ __forceinline__ static int row_of(int u, int a) {
        return p.row.up * u + g.walk.shift + a;
    }
    /// Calls body(place, depth, column, unit, inside) for the vectors of a row of results.
    template <typename Body>
    __device__ __forceinline__ void for_each_written(
            int row, const Body &body) const {
        for_each<cut.depths, cut.columns / columns_at_once>([&](int o, int i) {
            const int j = i * columns_at_once;
            body(row_at(row) + o * result_depth<s>()
                            + j * g.column_step * result_column<s>(),
                    o, j, o * (cut.columns / columns_at_once) + i,
                    (g.depth_tiles * cut.depths <= p.depth.written
                            || first_depth + o < p.depth.written)
                            && (g.tiles * cut.columns <= p.column.written
                                    || first_column + j * g.column_step
                                            < p.column.written));
        });
    }
    /// What ops behind it read for rows of results from one on, to registers or by copies.
    template <int rows>
    __device__ __forceinline__ void load_others(
            int to, int first, bool checked, bool copies = false) {
        for_each<rows, ops>([&](int r, int e) {
            const int row = first + r;
            const bool there = !checked || (row >= first_row && row < last_row);
            for_each_written(
                    row, [&](type *at, int, int, int unit, bool inside) {
                        const int i = e * units_written + unit;
                        const bool wanted = there && inside;
                        const type *const from
                                = jit::other_of(at, others.epilogue[e]);
                        if (!copies && wanted)
                            other_rows[to + r][i] = written_unit::load(from);
                        if constexpr (g.copied && ops > 0)
                            if (copies)
                                other_copies.copy(to + r, i, wanted, from);
                    });
        });
    }

    /// The rows at `next` go to a slot of the ring.
    __device__ void load(int slot, bool checked) {
        const bool exists = !checked || next_step <= last_step;
        for_each_unit([&](int f, int z, int m, int unit) {
            const bool row_inside = g.walk.phases == 1 || !checked
                    || (exists && next_step * p.row.step + f < p.row.read);
            const type *const from = next + f * row_pitch
                    + (z + g.first_depth) * depth_pitch + m * piece_pitch()
                    + (unit + g.units.first) * g.units.vector * column_pitch;
            const bool inside = column_inside[unit] && depth_inside[z];
            const int at = copied_unit(f, z, m, unit);
            if constexpr (!g.copied)
                load_into(
                        rows[slot][f][z][m][unit], from, inside && row_inside);
            else if (g.walk.phases == 1)
                on_their_way.copy(slot, at, inside && exists, from);
            else
                on_their_way.copy_or_zero(slot, at, inside && row_inside, from);
        });
        if constexpr (g.copied)
            load_others<p.row.up>(
                    slot * p.row.up, row_of(next_step, 0), true, true);
    }
    /// The rows of a group are copied, those of the steps from next_step on.
    __device__ void copy_group(bool checked) {
#pragma unroll
        for (int i = 0; i < cut.unroll; ++i) {
            load(newest * cut.unroll + i, checked);
            advance();
        }
        commit_copies();
        newest = newest == cut.ahead ? 0 : newest + 1;
    }
    /// A copied row, to registers.
    __device__ void take(int slot) {
        for_each_unit([&](int f, int z, int m, int unit) {
            rows[0][f][z][m][unit]
                    = on_their_way.taken(slot, copied_unit(f, z, m, unit));
        });
    }
    __device__ static constexpr long long piece_pitch() {
        return p.channels_last ? g.loaded
                : staged_read  ? static_cast<long long>(p.depth.read)
                        * p.row.read * p.column.read
                              : p.read.channel;
    }

    __device__ const vector &loaded_unit(
            int slot, int f, int z, int m, int unit) const {
        if constexpr (grouped)
            return taken[slot][f][z][m][unit];
        else
            return rows[g.copied ? 0 : slot][f][z][m][unit];
    }
    /// Registers: a row leaves the ring.
    __device__ void take_row(int slot) {
        for_each_unit([&](int f, int z, int m, int unit) {
            taken[slot][f][z][m][unit] = rows[slot][f][z][m][unit];
        });
    }

    /// Of a loaded row, the element of a column, counted from the first loaded one, and of
    /// a channel of the vector or a plane.
    __device__ sum_type element_of(
            int slot, int f, int z, int column, int channel_of) const {
        const int unit = column / g.units.vector;
        return p.channels_last ? loaded_unit(slot, f, z, channel_of / g.loaded,
                       unit)[channel_of % g.loaded]
                               : loaded_unit(slot, f, z, channel_of,
                                       unit)[column % g.units.vector];
    }

    /// To the next step's rows, or, for registers, to the last ones again.
    __device__ void advance() {
        if (g.copied || next_step < last_step) {
            next += row_step * row_pitch;
            ++next_step;
        }
    }
    /// Registers: the next row takes a slot; with tests the ring moves up, and it takes the
    /// last one.
    __device__ void advance_and_load(int slot, bool checked) {
        if (checked) {
#pragma unroll
            for (int i = 0; i + 1 < cut.ahead; ++i)
                for_each_unit([&](int f, int z, int m, int unit) {
                    rows[i][f][z][m][unit] = rows[i + 1][f][z][m][unit];
                });
            advance();
            load(cut.ahead - 1, true);
        } else {
            next += row_step * row_pitch;
            ++next_step;
            load(slot, false);
        }
    }
};

} // namespace gradnn::gpu::sliding
