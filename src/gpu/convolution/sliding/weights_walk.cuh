// A thread's walk along the rows of src and dst (weights.cuh).
#pragma once

#include "gpu/convolution/sliding/rows.cuh"
#include "gpu/convolution/sliding/weights_geometry.hpp"

namespace gradnn::gpu::sliding {

template <const kernel_specification &s>
struct weights_walk {
    static constexpr problem_specification p = s.of;
    static constexpr work_cut cut = s.cut;
    static constexpr const weights_geometry &g
            = geometry_for<s, weights_geometry>::g;
    using type = stored_of<p.type>;
    using sum_type = sum_of<p.type>;
    static constexpr bool batched = false; ///< of rows that leave the ring
    /// Channels of dst, and threads side by side that share channels of src.
    static constexpr int multiples = multiples_of(p, cut),
                         multiple_blocks = sliding::multiple_blocks(p, cut);
    /// Depthwise each channel of a vector has channels of dst of its own.
    static constexpr int own = is_grouped(p) ? 1 : cut.vector;
    /// Rows from a step to the next one.
    static constexpr int src_step = g.src_step, dst_step = g.classes;

    int channel, multiple, depth, in_class, tap_row;
    sum_type sums[multiples][p.depth.taps][g.row_taps][p.column.taps]
                 [cut.vector];
    loaded_rows<s, weights_geometry, &weights_geometry::src> src_rows;
    loaded_rows<s, weights_geometry, &weights_geometry::dst> dst_rows;
    sum_type kept[g.kept][cut.columns][multiples][own];
    const type *src, *dst;
    int end; ///< of the strip's steps

    __device__ int src_row(int step, int phase) const {
        return in_class + phase + p.row.base + src_step * (step + tap_row);
    }
    __device__ int dst_row(int step) const {
        return in_class + dst_step * step;
    }
    __device__ static constexpr bool dst_used(int j) {
        return g.dst.columns.used[j * g.column_step / g.dst.columns.vector];
    }
    /// Calls body(sum, number) for each of a thread's sums.
    template <typename Body>
    __device__ __forceinline__ void for_each_sum(const Body &body) {
        int number = 0;
        for_each<multiples, p.depth.taps, g.row_taps, p.column.taps,
                cut.vector>([&](int m, int kd, int kh, int kw, int v) {
            body(sums[m][kd][kh][kw][v], number++);
        });
    }
    __device__ void load(int step, int slot, bool checked) {
        if (g.copied && checked && step >= end) return;
        dst_rows.load(slot, dst,
                [&](int) { return !checked || dst_is_inside(step); });
        src_rows.load(slot, src, [&](int f) {
            return !checked
                    || static_cast<unsigned>(src_row(step, f))
                    < static_cast<unsigned>(p.row.read);
        });
    }
    __device__ bool dst_is_inside(int step) const {
        return static_cast<unsigned>(dst_row(step))
                < static_cast<unsigned>(p.row.written);
    }
    __device__ void load_next(int step, int slot, bool checked) {
        if (checked && step >= end) return;
        advance();
        load(step, slot, checked);
    }
    __device__ void advance() {
        src += src_step * p.read.row;
        dst += dst_step * p.written.row;
    }
    __device__ void move_rows_up() {
        src_rows.move_up();
        dst_rows.move_up();
    }
    /// Whether all that the steps of a body load is there.
    __device__ bool loads_are_inside(int step) const {
        const int last = step + cut.unroll - 1;
        return last < end && src_row(step, 0) >= 0
                && src_row(last, g.src.phases - 1) < p.row.read
                && dst_row(last) < p.row.written;
    }
    /// Groups of tensors that begin anywhere may be in registers after all.
    __device__ bool is_free(int t) const {
        if (g.copied) return cut.unchecked && t + cut.unroll <= end;
        return cut.unchecked && cut.unroll % cut.ahead == 0
                && loads_are_inside(t + cut.ahead);
    }
    __device__ void body(int t, int first) {
#pragma unroll
        for (int i = 0; i < cut.unroll; ++i)
            step(t + i, g.copied ? first + i : i % cut.ahead, false);
    }

    __device__ void keep(int age, int slot) {
        for_each<cut.columns, multiples, own>([&](int j, int m, int v) {
            kept[age][j][m][v] = dst_used(j) ? dst_rows.element_of(slot, 0, 0,
                                         j * g.column_step, v * multiples + m)
                                             : 0;
        });
    }

    __device__ void step(int t, int slot, bool checked) {
        for_each<g.kept - 1, cut.columns, multiples, own>(
                [&](int i, int j, int m, int v) {
                    const int age = g.kept - 1 - i;
                    kept[age][j][m][v] = kept[age - 1][j][m][v];
                });
        if constexpr (g.copied) {
            dst_rows.take(slot);
            src_rows.take(slot);
        }
        keep(0, slot);
        constexpr auto &columns = g.src.columns;
        constexpr int width = columns.count * columns.vector;
        sum_type values[g.src.phases][p.depth.taps][width][cut.vector];
        for_each<g.src.phases, p.depth.taps, width, cut.vector>(
                [&](int f, int kd, int x, int v) {
                    if (g.src.phase_used[f] && g.src.depths.used[kd]
                            && columns.used[x / columns.vector])
                        values[f][kd][x][v]
                                = src_rows.element_of(slot, f, kd, x, v);
                });
        if constexpr (!g.copied) load_ahead(*this, t, slot, checked);
        for_each<p.depth.taps, g.row_taps, cut.columns, p.column.taps>(
                [&](int kd, int kh, int j, int kw) {
                    const int x = columns.met[kw][j];
                    if (x < 0 || !g.src.depths.used[kd] || !dst_used(j)) return;
                    for_each<multiples, cut.vector>([&](int m, int v) {
                        sums[m][kd][kh][kw][v]
                                = multiply_add(values[g.phase_of[kh]][kd][x][v],
                                        kept[g.age_of[kh]][j][m][v % own],
                                        sums[m][kd][kh][kw][v]);
                    });
                });
    }

    /// The strip of a tile, whose first column src and dst are given for, at row 0.
    __device__ void walk(const type *src_at, const type *dst_at, int column,
            int t, int last) {
        end = last;
        src_rows.find_outside(
                column * p.column.step, p.column.read, depth * p.depth.step);
        dst_rows.find_outside(column, p.column.written, 0);
        src = src_at + static_cast<long long>(src_row(t, 0)) * p.read.row;
        dst = dst_at + static_cast<long long>(dst_row(t)) * p.written.row;
#pragma unroll
        for (int age = 1; age < g.kept; ++age) {
            dst_rows.template load<false>(0,
                    dst - age * dst_step * p.written.row,
                    [&](int) { return dst_is_inside(t - age); });
            keep(age - 1, 0);
        }
        walk_along(*this, t, last);
    }

    // In weights.cuh.
    __device__ void add_staged_rows(
            const type *all_src, const type *all_dst, int part);
    __device__ void add_strips(const type *all_src, const type *all_dst,
            unsigned slot, unsigned part);

    /// Of the weights that a thread has sums of, the number of one.
    __device__ int number_of(int m, int kd, int kh, int kw, int channel) const {
        return (((channel % p.group * p.depth.taps + kd) * p.row.taps + kh
                        + tap_row)
                               * p.column.taps
                       + kw)
                * (p.channels / p.group * p.multiplier)
                + channel / p.group * p.multiplier + m;
    }
};

} // namespace gradnn::gpu::sliding
