// A thread's walk along the rows of src and dst (weights.cuh).
#pragma once

#include "gpu/convolution/sliding/device.cuh"
#include "gpu/convolution/sliding/weights_specification.hpp"

namespace gradnn::gpu::sliding {

template <const weights_specification &s>
struct weights_walk {
    static constexpr problem_specification p = s.of;
    static constexpr weights_cut cut = s.cut;
    static constexpr weights_geometry g = geometry_of(s);
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    static constexpr bool nxc = p.channels_last;
    static constexpr int gap = -p.row.dilation;
    static constexpr int pad = -p.row.base;
    /// Rows from a step to the next one.
    static constexpr int src_step = p.row.step == 1 ? gap : p.row.step;
    static constexpr int dst_step = p.row.step == 1 ? gap : 1;

    int depth, in_class, tap_row;
    sum_type sums[p.multiplier][p.depth.taps][g.row_taps][p.column.taps]
                 [cut.vector];
    using src_vector = jit::elements<p.type, g.src_loaded>;
    using dst_vector = jit::elements<p.type, g.dst_loaded>;
    static constexpr int held_rows = g.copied ? 1 : cut.ahead;
    src_vector src_rows[held_rows][g.phases][p.depth.taps][g.src_pieces]
                       [g.src.count];
    dst_vector dst_rows[held_rows][g.dst_pieces][g.dst.count];
    jit::rows_on_their_way<src_vector,
            g.phases * p.depth.taps * g.src_pieces * g.src.count, cut.threads>
            src_copies;
    jit::rows_on_their_way<dst_vector, g.dst_pieces * g.dst.count, cut.threads>
            dst_copies;
    int oldest, newest; ///< slots of groups of rows
    sum_type kept[g.kept][cut.columns][p.multiplier][cut.vector];
    bool src_inside[g.src.count], dst_inside[g.dst.count];
    bool depth_inside[p.depth.taps];
    const type *src, *dst;

    __device__ int src_row(int step, int phase) const {
        return p.row.step == 1 ? in_class - pad + gap * (step + tap_row)
                               : p.row.step * step + phase - pad;
    }
    __device__ int dst_row(int step) const {
        return p.row.step == 1 ? in_class + gap * step : step;
    }
    __device__ static constexpr bool dst_used(int j) {
        return g.dst.used[j * g.column_step / g.dst.vector];
    }
    __device__ static constexpr int src_unit(int f, int kd, int m, int unit) {
        return ((f * p.depth.taps + kd) * g.src_pieces + m) * g.src.count
                + unit;
    }
    /// Calls body(sum, number) for each of a thread's sums.
    template <typename Body>
    __device__ __forceinline__ void for_each_sum(const Body &body) {
        int number = 0;
        for_each<p.multiplier, p.depth.taps, g.row_taps, p.column.taps,
                cut.vector>([&](int m, int kd, int kh, int kw, int v) {
            body(sums[m][kd][kh][kw][v], number++);
        });
    }
    /// Calls body(piece, unit), or body(phase, depth, piece, unit), for the vectors of a row
    /// that are used.
    template <typename Body>
    __device__ __forceinline__ static void for_each_dst(const Body &body) {
        for_each<g.dst_pieces, g.dst.count>([&](int m, int unit) {
            if (g.dst.used[unit]) body(m, unit);
        });
    }
    template <typename Body>
    __device__ __forceinline__ static void for_each_src(const Body &body) {
        for_each<g.phases, p.depth.taps, g.src_pieces, g.src.count>(
                [&](int f, int kd, int m, int unit) {
                    if (g.phase_used[f] && g.src.used[unit])
                        body(f, kd, m, unit);
                });
    }
    template <bool copied>
    __device__ void load_dst(int slot, const type *at, bool inside) {
        for_each_dst([&](int m, int unit) {
            const type *const from = at
                    + m * (nxc ? g.dst_loaded : p.written.channel)
                    + unit * g.dst.vector * p.written.column;
            const bool wanted = inside && dst_inside[unit];
            if constexpr (copied)
                dst_copies.copy_or_zero(
                        slot, m * g.dst.count + unit, wanted, from);
            else
                load_into(dst_rows[slot][m][unit], from, wanted);
        });
    }
    __device__ void load(int step, int slot, bool checked) {
        load_dst<g.copied>(slot, dst,
                !checked
                        || static_cast<unsigned>(dst_row(step))
                                < static_cast<unsigned>(p.row.written));
        for_each_src([&](int f, int kd, int m, int unit) {
            const bool inside = !checked
                    || static_cast<unsigned>(src_row(step, f))
                            < static_cast<unsigned>(p.row.read);
            const type *const from = src + f * p.read.row
                    + p.depth.met(0, kd) * p.read.depth + m * g.src_loaded
                    + (unit + g.src.first) * g.src.vector * p.read.column;
            const bool wanted = inside && depth_inside[kd] && src_inside[unit];
            if constexpr (g.copied)
                src_copies.copy_or_zero(
                        slot, src_unit(f, kd, m, unit), wanted, from);
            else
                load_into(src_rows[slot][f][kd][m][unit], from, wanted);
        });
    }
    /// Copied rows, to registers.
    __device__ void take(int slot) {
        for_each_dst([&](int m, int unit) {
            dst_rows[0][m][unit]
                    = dst_copies.taken(slot, m * g.dst.count + unit);
        });
        for_each_src([&](int f, int kd, int m, int unit) {
            src_rows[0][f][kd][m][unit]
                    = src_copies.taken(slot, src_unit(f, kd, m, unit));
        });
    }
    /// The rows of a group are copied, those of the steps from t on.
    __device__ void copy_group(int t, int end, bool checked) {
#pragma unroll
        for (int i = 0; i < cut.unroll; ++i) {
            if (!checked || t + i < end)
                load(t + i, newest * cut.unroll + i, checked);
            advance();
        }
        commit_copies();
        newest = newest == cut.ahead ? 0 : newest + 1;
    }
    __device__ void advance() {
        src += src_step * p.read.row;
        dst += dst_step * p.written.row;
    }

    __device__ sum_type dst_element(int slot, int j, int m, int v) const {
        const int column = j * g.column_step;
        const int e = v * p.multiplier + m;
        return nxc ? dst_rows[slot][e / g.dst_loaded][column][e % g.dst_loaded]
                   : dst_rows[slot][m][column / g.dst.vector]
                             [column % g.dst.vector];
    }
    __device__ void keep(int age, int slot) {
        for_each<cut.columns, p.multiplier, cut.vector>([&](int j, int m,
                                                                int v) {
            kept[age][j][m][v] = dst_used(j) ? dst_element(slot, j, m, v) : 0;
        });
    }

    __device__ void step(int t, int slot, int end, bool checked) {
        for_each<g.kept - 1, cut.columns, p.multiplier, cut.vector>(
                [&](int i, int j, int m, int v) {
                    const int age = g.kept - 1 - i;
                    kept[age][j][m][v] = kept[age - 1][j][m][v];
                });
        if constexpr (g.copied) take(slot);
        const int held = g.copied ? 0 : slot;
        keep(0, held);
        constexpr int width = g.src.count * g.src.vector;
        sum_type values[g.phases][p.depth.taps][width][cut.vector];
        for_each<g.phases, p.depth.taps, width, cut.vector>(
                [&](int f, int kd, int x, int v) {
                    if (g.phase_used[f] && g.src.used[x / g.src.vector])
                        values[f][kd][x][v] = nxc
                                ? src_rows[held][f][kd][v / g.src_loaded][x]
                                          [v % g.src_loaded]
                                : src_rows[held][f][kd][0][x / g.src.vector]
                                          [x % g.src.vector];
                });
        if constexpr (!g.copied) load_ahead(t, slot, end, checked);
        for_each<p.depth.taps, g.row_taps, cut.columns, p.column.taps>(
                [&](int kd, int kh, int j, int kw) {
                    const int x = g.src.met[kw][j];
                    if (x < 0 || !dst_used(j)) return;
                    for_each<p.multiplier, cut.vector>([&](int m, int v) {
                        sums[m][kd][kh][kw][v]
                                = multiply_add(values[g.phase_of[kh]][kd][x][v],
                                        kept[g.age_of[kh]][j][m][v],
                                        sums[m][kd][kh][kw][v]);
                    });
                });
    }
    /// Registers: the rows that are `ahead` of a step.
    __device__ void load_ahead(int t, int slot, int end, bool checked) {
        if (checked) {
#pragma unroll
            for (int i = 0; i + 1 < cut.ahead; ++i) {
                for_each_src([&](int f, int kd, int m, int unit) {
                    src_rows[i][f][kd][m][unit]
                            = src_rows[i + 1][f][kd][m][unit];
                });
                for_each_dst([&](int m, int unit) {
                    dst_rows[i][m][unit] = dst_rows[i + 1][m][unit];
                });
            }
            if (t + cut.ahead < end) {
                advance();
                load(t + cut.ahead, cut.ahead - 1, true);
            }
        } else {
            advance();
            load(0, slot, false);
        }
    }

    /// The strip of a tile, whose first column src and dst are given for, at row 0.
    __device__ void walk(const type *src_at, const type *dst_at, int column,
            int t, int end) {
#pragma unroll
        for (int unit = 0; unit < g.src.count; ++unit)
            src_inside[unit] = g.src.is_inside(
                    unit, column * p.column.step, p.column.read);
#pragma unroll
        for (int unit = 0; unit < g.dst.count; ++unit)
            dst_inside[unit] = g.dst.is_inside(unit, column, p.column.written);
#pragma unroll
        for (int kd = 0; kd < p.depth.taps; ++kd)
            depth_inside[kd] = static_cast<unsigned>(p.depth.met(0, kd)
                                       + depth * p.depth.step)
                    < static_cast<unsigned>(p.depth.read);
        src = src_at + static_cast<long long>(src_row(t, 0)) * p.read.row;
        dst = dst_at + static_cast<long long>(dst_row(t)) * p.written.row;
#pragma unroll
        for (int age = 1; age < g.kept; ++age) {
            load_dst<false>(0, dst - age * dst_step * p.written.row,
                    static_cast<unsigned>(dst_row(t - age))
                            < static_cast<unsigned>(p.row.written));
            keep(age - 1, 0);
        }
        // Whether all that so many steps load is there.
        const auto inside = [&](int from, int steps) {
            const int last = from + steps - 1;
            return last < end && src_row(from, 0) >= 0
                    && src_row(last, g.phases - 1) < p.row.read
                    && dst_row(last) < p.row.written;
        };
        if constexpr (g.copied) {
            oldest = newest = 0;
            constexpr int after = cut.ahead * cut.unroll;
#pragma unroll
            for (int i = 0; i < cut.ahead; ++i)
                copy_group(t + i * cut.unroll, end, true);
#pragma unroll 1
            do {
                wait_for_copies<cut.ahead - 1>();
                const int first = oldest * cut.unroll;
                if (cut.unroll < 4 || !inside(t + after, cut.unroll))
                    copy_group(t + after, end, true);
                else
                    copy_group(t + after, end, false);
                if (cut.unchecked && t + cut.unroll <= end) {
#pragma unroll
                    for (int i = 0; i < cut.unroll; ++i)
                        step(t + i, first + i, end, false);
                    t += cut.unroll;
                } else {
#pragma unroll 1
                    for (int i = 0; i < cut.unroll && t < end; ++i)
                        step(t++, first + i, end, true);
                }
                oldest = oldest == cut.ahead ? 0 : oldest + 1;
            } while (t < end);
        } else {
#pragma unroll
            for (int i = 0; i < cut.ahead; ++i)
                if (i == 0 || t + i < end) {
                    if (i) advance();
                    load(t + i, i, true);
                }
#pragma unroll 1
            for (;;) {
                // Groups of tensors that begin anywhere may be in registers after all.
                if (cut.unchecked && cut.unroll % cut.ahead == 0
                        && inside(t + cut.ahead, cut.unroll)) {
#pragma unroll
                    for (int i = 0; i < cut.unroll; ++i)
                        step(t + i, i % cut.ahead, end, false);
                    t += cut.unroll;
                    continue;
                }
                step(t, 0, end, true);
                if (++t >= end) break;
            }
        }
    }

    /// Of the weights that a thread has sums of, the number of one.
    __device__ int number_of(int m, int kd, int kh, int kw, int channel) const {
        return ((kd * p.row.taps + kh + tap_row) * p.column.taps + kw)
                * (p.channels * p.multiplier)
                + channel * p.multiplier + m;
    }
};

} // namespace gradnn::gpu::sliding
