// The rows of a tensor that a thread has on their way, and its walk along them: of data those
// that are read, of weights those of src and of dst.
#pragma once

#include "gpu/convolution/sliding/device.cuh"

namespace gradnn::gpu::sliding {

/// Rows in a ring of slots, in registers or, where they are copied, in shared memory. `part`
/// is the member of the geometry that says which.
template <const kernel_specification &s, typename Geometry,
        row_table Geometry::*part>
struct loaded_rows {
    static constexpr problem_specification p = s.of;
    static constexpr work_cut cut = s.cut;
    static constexpr const Geometry &g = geometry_for<s, Geometry>::g;
    static constexpr bool copied = g.copied;
    static constexpr const row_table &table = g.*part;
    using type = stored_of<p.type>;
    using vector = elements<p.type, table.loaded>;

    vector rows[copied ? 1 : cut.ahead][table.units()];
    /// Those that left the ring together, where they do.
    vector taken[table.batched ? cut.ahead : 1][table.units()];
    rows_on_their_way<vector, table.units(), cut.threads> copies;
    bool column_inside[table.columns.count], depth_inside[table.depths.count];

    /// Of what a tile's first result meets, of rows of so many columns.
    __device__ void find_outside(int column, int width, int depth) {
#pragma unroll
        for (int unit = 0; unit < table.columns.count; ++unit)
            column_inside[unit] = table.columns.is_inside(unit, column, width);
#pragma unroll
        for (int z = 0; z < table.depths.count; ++z)
            depth_inside[z] = table.depths.is_inside(z, depth, p.depth.read);
    }
    __device__ static constexpr int place_of(int f, int z, int m, int unit) {
        return ((f * table.depths.count + z) * table.pieces + m)
                * table.columns.count
                + unit;
    }
    /// Calls body(place, phase, depth, piece, unit) for the vectors of a row that are used.
    template <typename Body>
    __device__ __forceinline__ static void for_each_unit(const Body &body) {
        for_each<table.phases, table.depths.count, table.pieces,
                table.columns.count>([&](int f, int z, int m, int unit) {
            if (table.phase_used[f] && table.depths.used[z]
                    && table.columns.used[unit])
                body(place_of(f, z, m, unit), f, z, m, unit);
        });
    }
    /// The rows at a place, given for what the first result meets, go to a slot; row_inside
    /// (phase) says which are there. Others are zeros, or what the slot had, where these are.
    template <bool asynchronous = copied, bool keeps = false, typename Inside>
    __device__ void load(int slot, const type *at, const Inside &row_inside) {
        constexpr long long piece_pitch
                = p.channels_last ? table.loaded : table.from.channel;
        bool there[table.phases];
        for_each<table.phases>([&](int f) { there[f] = row_inside(f); });
        for_each_unit([&](int place, int f, int z, int m, int unit) {
            const type *const from = at + f * table.from.row
                    + table.depths.at[z] * table.from.depth + m * piece_pitch
                    + table.columns.at[unit] * table.from.column;
            const bool wanted
                    = there[f] && depth_inside[z] && column_inside[unit];
            if constexpr (!asynchronous)
                load_into(rows[slot][place], from, wanted);
            else if constexpr (keeps)
                copies.copy(slot, place, wanted, from);
            else
                copies.copy_or_zero(slot, place, wanted, from);
        });
    }
    /// Copied rows, to registers.
    __device__ void take(int slot) {
        for_each_unit([&](int place, auto...) {
            rows[0][place] = copies.taken(slot, place);
        });
    }
    /// Registers: rows leave the ring.
    __device__ void take_row(int slot) {
        for_each_unit([&](int place, auto...) {
            taken[slot][place] = rows[slot][place];
        });
    }
    /// Registers: the ring moves up by a slot.
    __device__ void move_up() {
#pragma unroll
        for (int i = 0; i + 1 < cut.ahead; ++i)
            for_each_unit([&](int place, auto...) {
                rows[i][place] = rows[i + 1][place];
            });
    }
    /// Of the rows in a slot, or taken, the element of a column, counted from the first loaded
    /// one, and of a channel of the vector or a plane.
    __device__ sum_of<p.type> element_of(
            int slot, int f, int z, int column, int channel) const {
        const int unit = column / table.columns.vector;
        const int piece = p.channels_last ? channel / table.loaded : channel;
        const int e = p.channels_last ? channel % table.loaded
                                      : column % table.columns.vector;
        const int place = place_of(f, z, piece, unit);
        return table.batched ? taken[slot][place][e]
                             : rows[copied ? 0 : slot][place][e];
    }
};

/// Registers: within step t, once its rows have left their slot, the rows of a later step take
/// it; with tests the ring moves up.
template <typename Walk>
__device__ __forceinline__ void load_ahead(
        Walk &walk, int t, int slot, bool checked) {
    constexpr int ahead = Walk::cut.ahead;
    if (checked) {
        walk.move_rows_up();
        walk.load_next(t + ahead, ahead - 1, true);
    } else {
        walk.load_next(t + ahead, slot, false);
    }
}

/// The steps from t to `end`, of rows that are loaded some steps ahead. A walk has load(step,
/// slot, checked), advance(), which lets the next step's rows follow, or, for registers,
/// load_next(step, slot, checked), and loads_are_inside(step), for cut.unroll steps; step(t,
/// slot, checked), and for cut.unroll steps without tests body(t, slot), where is_free(t); one
/// that is `batched` has body(t, slot, true, end) for those before `end`.
template <typename Walk>
__device__ __forceinline__ void walk_along(Walk &walk, int &t, int end) {
    constexpr work_cut cut = Walk::cut;
    if constexpr (Walk::g.copied) {
        int oldest = 0, newest = 0; // slots of groups of rows
        const auto copy_group = [&](int step, bool checked) {
#pragma unroll
            for (int i = 0; i < cut.unroll; ++i) {
                walk.load(step + i, newest * cut.unroll + i, checked);
                walk.advance();
            }
            commit_copies();
            newest = newest == cut.ahead ? 0 : newest + 1;
        };
#pragma unroll
        for (int i = 0; i < cut.ahead; ++i)
            copy_group(t + i * cut.unroll, true);
#pragma unroll 1
        do {
            wait_for_copies<cut.ahead - 1>();
            const int first = oldest * cut.unroll;
            const int next = t + cut.ahead * cut.unroll;
            if (cut.unroll < 4 || !walk.loads_are_inside(next))
                copy_group(next, true);
            else
                copy_group(next, false);
            if (walk.is_free(t)) {
                walk.body(t, first);
                t += cut.unroll;
            } else {
                // The first untested: ptxas 13.0 made it one with is_free(t), and lost steps < 0.
#pragma unroll 1
                for (int i = 0; i == 0 || (i < cut.unroll && t < end); ++i)
                    walk.step(t++, first + i, true);
            }
            oldest = oldest == cut.ahead ? 0 : oldest + 1;
        } while (t < end);
    } else {
        walk.load(t, 0, true);
#pragma unroll
        for (int i = 1; i < cut.ahead; ++i)
            walk.load_next(t + i, i, true);
#pragma unroll 1
        for (;;) {
            if (walk.is_free(t)) {
                walk.body(t, 0);
                t += cut.unroll;
                continue;
            }
            if constexpr (Walk::batched) {
                walk.body(t, 0, true, end);
                t = least(t + cut.unroll, end);
            } else {
                walk.step(t++, 0, true);
            }
            if (t >= end) break;
        }
    }
}

} // namespace gradnn::gpu::sliding
