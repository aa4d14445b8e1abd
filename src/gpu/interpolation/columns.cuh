// A thread's columns: their taps of one row, and the sums of these.
#pragma once

#include "gpu/interpolation/device.cuh"
#include "gpu/interpolation/geometry.hpp"

namespace gradnn::gpu::resample {

template <const specification_of_kernel &s>
struct kernel_of<s>::columns {
    static constexpr int kept = most(1, g.most_kept);
    static constexpr int unit_elements = most(c.vector, c.read_vector);
    using unit = jit::elements<read_type_of(p), unit_elements>;
    static constexpr int loads = g.units * loads_of(p);
    using raw_row = unit[loads];
    /// What is no tap adds nothing (else it is 0); it is loaded if that is the block's own memory.
    static constexpr bool skips
            = c.stages > 0 && (!p.middle.is_there() || p.middle.least_taps > 0);
    static constexpr bool loads_all = skips
            && g.reach * p.column.read_pitch * sizeof(read_type)
                    <= stage_margin;
    using row_sums = sum_type[c.columns][c.vector];
    // What is written at once, and the other elements of the ops behind it.
    static constexpr int wide = c.vector > 1 ? 1 : g.write_vector;
    static constexpr int epilogues = c.gathers ? 0 : epilogues_of(p);
    using written_unit = jit::elements<p.type, wide * c.vector>;
    using other_row = written_unit[most(1, epilogues)][c.columns / wide];

    int first_column;
    /// In elements from a row's first one, for each column or for all.
    int begin[c.columns];
    int count[c.columns];
    bool inside[g.units];
    bool at_begin, at_end; ///< of a row, where no neighbour has more of it
    sum_type weights[c.columns][kept];
    const sum_type *rolled_weights;
    fused_places others;

    __device__ static constexpr bool is_constant(int k) {
        return c.repeated && g.fixed[k];
    }

    /// Whether a row has a column of a thread.
    __device__ __forceinline__ bool has(int k) const {
        return (!c.exchanged && g.tiles * c.columns == p.column.written)
                || first_column + k * g.spread < p.column.written;
    }

    /// `tile` counts the columns by as many as a thread has.
    __device__ __forceinline__ void find(
            int tile, const axis_table<sum_type> &table) {
        first_column = first_column_of(g, c, tile);
        at_begin = tile == 0;
        at_end = tile == g.tiles - 1;
        const int window = tile * g.tile_step + g.first_position;
        if constexpr (c.repeated) {
            begin[0] = window * static_cast<int>(p.column.read_pitch);
#pragma unroll
            for (int u = 0; u < g.units; ++u)
                inside[u] = g.always_inside[u]
                        || (window + g.place_of[u].position >= 0
                                && window + g.place_of[u].position
                                                + c.read_vector
                                        <= p.column.read);
        }
#pragma unroll
        for (int k = 0; k < c.columns; ++k) {
            if (is_constant(k)) continue;
            const int column
                    = least(first_column + k * g.spread, p.column.written - 1);
            const place at = table.places[column];
            const sum_type *const of_column = table.weights
                    + column * static_cast<long long>(p.column.most_taps);
            if constexpr (g.rolled) rolled_weights = of_column;
            int past = 0;
            if constexpr (!c.repeated) {
                begin[k] = at.first * static_cast<int>(p.column.read_pitch);
                count[k] = at.count;
            } else {
                past = window + g.first_tap[k] - at.first;
            }
#pragma unroll
            for (int t = 0; t < kept; ++t) {
                if (t >= g.taps[k]) continue;
                const int tap = past + t;
                weights[k][t] = tap >= 0 && tap < at.count ? of_column[tap]
                                                           : sum_type(0);
            }
        }
        if constexpr (!c.repeated && !g.rolled) {
#pragma unroll
            for (int u = 0; u < g.units; ++u)
                inside[u] = g.always_inside[u]
                        || g.place_of[u].position < count[g.place_of[u].column];
        }
    }

    /// visit(unit, whether it is a tap, its place) for what is loaded of a row, if that `exists`.
    template <typename Visit>
    __device__ __forceinline__ void each_load(
            const read_type *row, bool exists, const Visit &visit) const {
#pragma unroll
        for (int u = 0; u < g.units; ++u) {
            const read_type *const at = row + begin[g.place_of[u].column]
                    + g.place_of[u].position * p.column.read_pitch;
            const bool wanted = exists && inside[u];
            visit(u, wanted, at);
            if constexpr (loads > g.units)
                visit(g.units + u, wanted, other_of(at, others.prologue));
        }
    }
    __device__ __forceinline__ void load(
            raw_row &to, const read_type *row, bool exists) const {
        each_load(row, exists, [&](int u, bool wanted, const read_type *at) {
            if (loads_all || wanted || !skips)
                to[u] = loads_all || wanted ? unit::load(at) : unit::zeros();
        });
    }
    /// Of what was loaded, a unit through the op ahead.
    __device__ __forceinline__ static unit taken(const raw_row &from, int u) {
        if constexpr (loads > g.units)
            return computed<p.type>(p.prologue, from[u], from[g.units + u]);
        else
            return from[u];
    }

    /// The sums over the taps of a row that was loaded.
    __device__ __forceinline__ void add_up(
            row_sums &to, const raw_row &loaded) const {
        static constexpr pattern repeats = p.columns;
        unit row[g.units];
#pragma unroll
        for (int u = 0; u < g.units; ++u)
            row[u] = taken(loaded, u);
        // What neighbouring lanes have of a window.
        sum_type left[most(1, g.left)], right[most(1, g.right)];
#pragma unroll
        for (int i = 0; i < g.left; ++i) {
            const int from = g.tile_step - g.left + i;
            const sum_type of_lane = __shfl_up_sync(
                    ~0U, row[from / c.read_vector][from % c.read_vector], 1);
            left[i] = at_begin ? sum_type(0) : of_lane;
        }
#pragma unroll
        for (int i = 0; i < g.right; ++i) {
            const sum_type of_lane = __shfl_down_sync(
                    ~0U, row[i / c.read_vector][i % c.read_vector], 1);
            right[i] = at_end ? sum_type(0) : of_lane;
        }
        each_of(to, [&](int k, int v) {
            sum_type added = 0;
#pragma unroll
            for (int t = 0; t < kept; ++t) {
                // Loops of a constant count, which compilers unroll from within.
                if (t >= g.taps[k]) continue;
                const sum_type weight = is_constant(k)
                        ? static_cast<sum_type>(
                                repeats.weight[k % most(1, repeats.written)][t])
                        : weights[k][t];
                const int tap = g.first_tap[k] + t;
                const int element = c.vector > 1 ? v : tap % c.read_vector;
                const int end = g.units * c.read_vector;
                const sum_type value = tap < 0 ? left[g.left + tap]
                        : tap >= end           ? right[tap - end]
                                     : row[tap / c.read_vector][element];
                if (!skips || tap < 0 || tap >= end
                        || inside[tap / c.read_vector])
                    added = multiply_add(weight, value, added);
            }
            to[k][v] = added;
        });
    }

    /// The same for a column of many taps, in place of load and add_up.
    __device__ __forceinline__ void add_up_rolled(
            row_sums &to, const read_type *row, bool exists) const {
#pragma unroll
        for (int v = 0; v < c.vector; ++v)
            to[0][v] = 0;
        const read_type *at = row + begin[0];
        const int taps = exists ? count[0] : 0;
#pragma unroll 4
        for (int t = 0; t < taps; ++t, at += p.column.read_pitch) {
            raw_row loaded;
            loaded[0] = unit::load(at);
            if constexpr (loads > 1)
                loaded[1] = unit::load(other_of(at, others.prologue));
            const unit tap = taken(loaded, 0);
#pragma unroll
            for (int v = 0; v < c.vector; ++v)
                to[0][v] = multiply_add(rolled_weights[t], tap[v], to[0][v]);
        }
    }

    /// Of a row of diff_src, from the first column on: on their way while its sums are computed.
    __device__ __forceinline__ void load_others(
            other_row &to, const type *row) const {
#pragma unroll
        for (int e = 0; e < epilogues; ++e)
#pragma unroll
            for (int k = 0; k < c.columns; k += wide)
                if (has(k))
                    to[e][k / wide] = written_unit::load(
                            other_of(row + k * g.spread * p.column.write_pitch,
                                    others.epilogue[e]));
    }

    /// To a row of diff_src, from the first column on.
    __device__ __forceinline__ void write(
            type *to, const row_sums &sums, const other_row &other) const {
#pragma unroll
        for (int k = 0; k < c.columns; k += wide) {
            if (!has(k)) continue;
            sum_type together[wide * c.vector];
#pragma unroll
            for (int i = 0; i < wide * c.vector; ++i)
                together[i] = sums[k + i / c.vector][i % c.vector];
            auto made = finished<p.type, wide * c.vector>(together);
#pragma unroll
            for (int e = 0; e < epilogues; ++e)
                made = computed<p.type>(
                        p.epilogue[e], made, other[e][k / wide]);
            if constexpr (c.gathers)
                made.store(to + k * g.spread * p.column.write_pitch);
            else
                made.stream(to + k * g.spread * p.column.write_pitch);
        }
    }
};

} // namespace gradnn::gpu::resample
