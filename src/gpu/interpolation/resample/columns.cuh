// A thread's columns: their taps of one row, and the sums of these.
#pragma once

#include "gpu/interpolation/resample/device.cuh"
#include "gpu/interpolation/resample/geometry.hpp"

namespace gradnn::gpu::resample {

/// Weights that a thread keeps of a column, at most.
constexpr int kept_weights(const geometry &g, int columns) {
    int kept = 1;
    for (int k = 0; k < columns && !g.rolled; ++k)
        kept = most(kept, g.taps[k]);
    return kept;
}

template <specification_of_kernel s>
struct columns_of_thread {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    static constexpr int kept = kept_weights(g, c.columns);
    static constexpr int unit_elements = most(c.vector, c.read_vector);
    using read_type = storage<read_type_of(p)>;
    using unit = jit::elements<read_type_of(p), unit_elements>;
    using raw_row = unit[g.units];
    using row_sums = sum_type[c.columns][c.vector];

    int first_column;
    /// In elements from a row's first one, for each column or for all.
    int begin[c.columns];
    int count[c.columns];
    bool inside[g.units];
    sum_type weights[c.columns][kept];
    const sum_type *rolled_weights;

    __device__ static constexpr bool is_constant(int k) {
        return c.repeated && g.fixed[k];
    }

    /// Whether a row has a column of a thread.
    __device__ __forceinline__ bool has(int k) const {
        return g.tiles * c.columns == p.column.written
                || first_column + k * g.spread < p.column.written;
    }

    /// `tile` counts the columns by as many as a thread has.
    __device__ __forceinline__ void find(
            int tile, const axis_table<sum_type> &table) {
        first_column = first_column_of(g, c, tile);
        if constexpr (!p.column.is_there()) {
            begin[0] = 0;
            inside[0] = true;
            return;
        }
        const int window = tile * g.tile_step + g.first_position;
        if constexpr (c.repeated) {
            begin[0] = window * static_cast<int>(p.column.read_pitch);
#pragma unroll
            for (int u = 0; u < g.units; ++u)
                inside[u] = g.always_inside[u]
                        || (window + g.unit_position[u] >= 0
                                && window + g.unit_position[u] + c.read_vector
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
                past = window + g.unit_of[k][0] * c.read_vector
                        + g.element_of[k][0] - at.first;
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
                        || g.unit_tap[u] < count[g.unit_column[u]];
        }
    }

    /// Zeros in place of what is no tap, where `exists` says that the row is there.
    __device__ __forceinline__ void load(
            raw_row &to, const read_type *row, bool exists) const {
#pragma unroll
        for (int u = 0; u < g.units; ++u) {
            const read_type *const at = row + begin[g.unit_column[u]]
                    + g.unit_position[u] * p.column.read_pitch;
            to[u] = exists && inside[u] ? unit::load(at) : unit::zeros();
        }
    }

    /// Submits copies of what is a tap.
    template <typename Rows>
    __device__ __forceinline__ void copy(
            const Rows &to, int slot, const read_type *row) const {
#pragma unroll
        for (int u = 0; u < g.units; ++u)
            to.copy(slot, u, inside[u],
                    row + begin[g.unit_column[u]]
                            + g.unit_position[u] * p.column.read_pitch);
    }

    /// The sums over the taps of a row that was loaded.
    __device__ __forceinline__ void add_up(
            row_sums &to, const raw_row &row) const {
        static constexpr pattern repeats = p.columns;
        if constexpr (!p.column.is_there()) {
#pragma unroll
            for (int v = 0; v < c.vector; ++v)
                to[0][v] = row[0][v];
            return;
        }
#pragma unroll
        for (int k = 0; k < c.columns; ++k)
#pragma unroll
            for (int v = 0; v < c.vector; ++v) {
                sum_type added = 0;
#pragma unroll
                for (int t = 0; t < kept; ++t) {
                    // Loops of a constant count, which compilers unroll from within.
                    if (t >= g.taps[k]) continue;
                    const sum_type weight = is_constant(k)
                            ? static_cast<sum_type>(repeats.weight[k
                                    % most(1, repeats.written)][t])
                            : weights[k][t];
                    added = multiply_add(weight,
                            row[g.unit_of[k][t]]
                               [c.vector > 1 ? v : g.element_of[k][t]],
                            added);
                }
                to[k][v] = added;
            }
    }

    /// The same for a column of many taps, in place of load and add_up.
    __device__ __forceinline__ void add_up_rolled(
            row_sums &to, const read_type *row) const {
#pragma unroll
        for (int v = 0; v < c.vector; ++v)
            to[0][v] = 0;
        const read_type *at = row + begin[0];
#pragma unroll 4
        for (int t = 0; t < count[0]; ++t, at += p.column.read_pitch) {
            const unit taken = unit::load(at);
#pragma unroll
            for (int v = 0; v < c.vector; ++v)
                to[0][v] = multiply_add(rolled_weights[t], taken[v], to[0][v]);
        }
    }

    /// To a row of sums, where inner elements are `inner` apart.
    __device__ __forceinline__ void keep(
            sum_type *row, const row_sums &sums) const {
        sum_type *const to = row + first_column * p.inner;
        constexpr element of
                = p.type == element::f64 ? element::f64 : element::f32;
        constexpr int wide = line_store_of(p, c);
#pragma unroll
        for (int k = 0; k < c.columns; k += wide) {
            if (!has(k)) continue;
            sum_type together[wide];
#pragma unroll
            for (int i = 0; i < wide; ++i)
                together[i] = sums[k + i][0];
            jit::elements<of, wide>::of(together).store(
                    to + k * g.spread * p.inner);
        }
    }

    /// To a row of diff_src.
    __device__ __forceinline__ void write(
            type *row, const row_sums &sums) const {
        type *const to = row + first_column * p.column.write_pitch;
        constexpr int wide = c.vector > 1 ? 1 : g.write_vector;
#pragma unroll
        for (int k = 0; k < c.columns; k += wide) {
            if (!has(k)) continue;
            sum_type together[wide * c.vector];
#pragma unroll
            for (int i = 0; i < wide * c.vector; ++i)
                together[i] = sums[k + i / c.vector][i % c.vector];
            const auto made = finished<p.type, wide * c.vector>(together);
            if constexpr (c.gathers)
                made.store(to + k * g.spread * p.column.write_pitch);
            else
                made.stream(to + k * g.spread * p.column.write_pitch);
        }
    }
};

} // namespace gradnn::gpu::resample
