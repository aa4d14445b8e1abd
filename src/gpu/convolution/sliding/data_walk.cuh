// A thread's walk along the rows that it reads (data.cuh).
#pragma once

#include "gpu/convolution/sliding/data_tile.cuh"

namespace gradnn::gpu::sliding {

template <const data_specification &s>
struct data_walk : data_tile<s> {
    using tile = data_tile<s>;
    using tile::advance, tile::advance_and_load, tile::all_weights,
            tile::channel, tile::channels, tile::copy_group, tile::cut,
            tile::element_of, tile::find_outside, tile::first_column,
            tile::first_depth, tile::first_row, tile::for_each_written, tile::g,
            tile::grouped, tile::image, tile::in_class, tile::last_row,
            tile::last_step, tile::load, tile::newest, tile::next,
            tile::next_step, tile::oldest, tile::on_their_way, tile::open,
            tile::ops, tile::other_copies, tile::other_rows, tile::others,
            tile::others_held, tile::p, tile::read, tile::read_from,
            tile::row_at, tile::row_of, tile::row_pitch, tile::row_step,
            tile::staged, tile::take, tile::take_row, tile::units_written,
            tile::weights, tile::written;
    using typename tile::copied_rows, typename tile::sum_type,
            typename tile::type, typename tile::written_unit;

    __device__ void multiply(int u, int slot) {
        constexpr int width = g.units.count * g.units.vector;
        if constexpr (g.copied) take(slot);
        sum_type values[g.walk.phases][g.depth_slots][width][channels];
        for_each<g.walk.phases, g.depth_slots, width, channels>(
                [&](int f, int z, int x, int e) {
                    if (g.depth_used[z] && g.units.used[x / g.units.vector]
                            && g.phase_used[f])
                        values[f][z][x][e] = element_of(slot, f, z, x, e);
                });
        if (!g.copied && (!grouped || checked_now)) {
            this->template load_others<p.row.up>(0, row_of(u, 0), checked_now);
            advance_and_load(slot, checked_now);
        }
        for_each<g.walk.phases, p.row.taps, cut.depths, p.depth.taps>(
                [&](int f, int kh, int o, int kd) {
                    const int a = g.sum_of[f][kh], z = g.depth_met[kd][o];
                    if (a >= 0 && z >= 0)
                        multiply_row(values[f][z], a, o, kd, kh);
                });
    }
    /// A row of what is read by a row of the window, to the sums of a depth.
    template <typename Values>
    __device__ __forceinline__ void multiply_row(
            const Values &values, int a, int o, int kd, int kh) {
        for_each<p.column.taps, cut.columns, cut.vector, p.multiplier>(
                [&](int kw, int j, int v, int m) {
                    const int x = g.units.met[kw][j];
                    if (x < 0) return;
                    const int e = p.channels_last ? v * p.multiplier + m : m;
                    open[a][o][j][v] = multiply_add(values[x][e],
                            weights[m][kd][kh][kw][v], open[a][o][j][v]);
                });
    }
    // Set by `step` around multiply, whose loads stand between conversions and products.
    bool checked_now;
    /// Whether the rows of a body without tests are looked through for NaN together.
    static constexpr bool gathers = cut.unroll >= 4;
    bool any_nan;

    /// A row of open sums; what the ops behind it read is in a row of the copies or registers.
    __device__ __forceinline__ void write_row(
            int a, int row, int place, bool copied) {
        for_each_written(
                row, [&](type *to, int o, int j, int unit, bool inside) {
                    sum_type values[g.write_vector];
#pragma unroll
                    for (int e = 0; e < g.write_vector; ++e)
                        values[e] = p.channels_last ? open[a][o][j][e]
                                                    : open[a][o][j + e][0];
                    auto made = written_unit::of(values);
#pragma unroll
                    for (int e = 0; e < ops; ++e) {
                        const int i = e * units_written + unit;
                        made = jit::computed(p.epilogue[e], made,
                                copied ? other_copies.taken(place, i)
                                       : other_rows[copied ? 0 : place][i]);
                    }
                    if (inside) made.store(to);
                });
        bool is_nan = gathers && !checked_now && any_nan;
        for_each<cut.depths, cut.columns, ceil_div(cut.vector, 2)>(
                [&](int o, int j, int v) {
                    is_nan |= either_is_nan(open[a][o][j][2 * v],
                            open[a][o][j][least(2 * v + 1, cut.vector - 1)]);
                });
        if (gathers && !checked_now)
            any_nan = is_nan;
        else if (is_nan)
            take_again(row);
    }
    __device__ void take_again(int row) {
        write_again<s>(read_from, all_weights, row_at(row), image, channel,
                first_depth, in_class + g.walk.classes * row, first_column,
                others);
    }

    /// The open sums become those of the rows that are `up` further on, or 0.
    __device__ __forceinline__ void move_up(int up) {
        for_each<g.walk.open, cut.depths, cut.columns, cut.vector>(
                [&](int a, int o, int j, int v) {
                    open[a][o][j][v] = a + up < g.walk.open
                            ? open[least(a + up, g.walk.open - 1)][o][j][v]
                            : sum_type(0);
                });
    }
    /// Rows that meet nothing.
    __device__ void write_zeros(int row, int end) {
        move_up(g.walk.open);
        for (; row < end; ++row) {
            this->template load_others<1>(0, row, false);
            write_row(0, row, 0, false);
        }
    }

    /// Step u, whose rows are in a slot of the ring.
    __device__ void step(int u, int slot, bool checked) {
        checked_now = checked;
        if (grouped && checked) take_row(0);
        multiply(u, slot);
        const int of_others = g.copied || (grouped && !checked) ? slot : 0;
#pragma unroll
        for (int a = 0; a < p.row.up; ++a) {
            const int row = row_of(u, a);
            if (!checked
                    || (row >= first_row && (p.row.up == 1 || row < last_row)))
                write_row(a, row, of_others * p.row.up + a, g.copied);
        }
        move_up(p.row.up);
    }

    /// Steps without tests, of rows in slots from `first` on.
    __device__ void body(int u, int first) {
        any_nan = false;
        if constexpr (grouped) {
#pragma unroll
            for (int i = 0; i < cut.unroll; ++i)
                take_row(i);
            this->template load_others<p.row.up * cut.unroll>(
                    0, row_of(u, 0), false);
#pragma unroll
            for (int i = 0; i < cut.unroll; ++i) {
                next += row_step * row_pitch;
                ++next_step;
                load(i, false);
            }
        }
#pragma unroll
        for (int i = 0; i < cut.unroll; ++i)
            step(u + i, g.copied ? first + i : i % cut.ahead, false);
        checked_now = true;
        if (!gathers || !any_nan) return;
#pragma unroll 1
        for (int i = 0; i < p.row.up * cut.unroll; ++i)
            take_again(p.row.up * u + g.walk.shift + i);
    }

    /// From first_row to last_row, counted in the class.
    __device__ void walk() {
        const int up = p.row.up;
        const int shift = g.walk.shift;
        int u = -floor_div(shift + g.walk.reach - first_row, up);
        last_step = floor_div(last_row - 1 - shift, up);
        if (p.row.parts()) {
            u = most(u, -floor_div(in_class + p.row.base, p.row.dilation));
            last_step = least(last_step,
                    floor_div(p.row.read - 1 - p.row.base - in_class,
                            p.row.dilation));
        } else {
            u = most(u, 0);
            last_step = least(last_step, (p.row.read - 1) / p.row.step);
        }
        const int met = u <= last_step ? up * u + shift : last_row;
        checked_now = true;
        write_zeros(first_row, least(met, last_row));
        if (u > last_step) return;
        find_outside();
        next_step = u;
        next = read
                + static_cast<long long>(g.walk.row_of(p.row, u, 0, in_class))
                        * row_pitch;
        // The last step whose rows of every phase are there.
        const int whole = g.walk.phases == 1
                ? last_step
                : least(last_step, p.row.read / p.row.step - 1);
        // Whether so many steps need no tests, with the rows that they load.
        const auto unchecked = [&](int rows) {
            return cut.unchecked && up * u + shift >= first_row
                    && u + rows - 1 <= whole
                    && (up == 1 || up * (u + cut.unroll) + shift <= last_row);
        };
        if constexpr (g.copied) {
            on_their_way = copied_rows(jit::dynamic_shared() + g.copied_at,
                    (cut.ahead + 1) * cut.unroll);
            other_copies.own = reinterpret_cast<written_unit *>(
                                       jit::dynamic_shared() + g.others_at)
                    + threadIdx.x;
            oldest = newest = 0;
#pragma unroll
            for (int i = 0; i < cut.ahead; ++i)
                copy_group(true);
#pragma unroll 1
            do {
                wait_for_copies<cut.ahead - 1>();
                const int first = oldest * cut.unroll;
                if (cut.unroll < 4 || next_step + cut.unroll - 1 > whole)
                    copy_group(true);
                else
                    copy_group(false);
                if (unchecked(cut.unroll)) {
                    body(u, first);
                    u += cut.unroll;
                } else {
#pragma unroll 1
                    for (int i = 0; i < cut.unroll && u <= last_step; ++i)
                        step(u++, first + i, true);
                }
                oldest = oldest == cut.ahead ? 0 : oldest + 1;
            } while (u <= last_step);
            // What the last rows need of others was copied too: the caches have it then.
            if constexpr (ops > 0) wait_for_copies<0>();
        } else {
#pragma unroll
            for (int i = 0; i < cut.ahead; ++i) {
                if (i) advance();
                load(i, true);
            }
#pragma unroll 1
            for (;;) {
                if (unchecked(cut.unroll + cut.ahead)) {
                    body(u, 0);
                    u += cut.unroll;
                    continue;
                }
                step(u, 0, true);
                if (++u > last_step) break;
            }
        }
        // The last rows, whose others are waited for together.
#pragma unroll
        for (int first = 0; first < g.walk.open - up; first += others_held) {
            this->template load_others<others_held>(0, row_of(u, first), true);
#pragma unroll
            for (int a = first;
                    a < least(first + others_held, g.walk.open - up); ++a)
                if (row_of(u, a) >= first_row && row_of(u, a) < last_row)
                    write_row(a, row_of(u, a), a - first, false);
        }
        write_zeros(most(first_row, row_of(u, most(g.walk.open - up, 0))),
                last_row);
    }
};

} // namespace gradnn::gpu::sliding
