// A thread's walk along the rows that it reads (data.cuh).
#pragma once

#include "gpu/convolution/sliding/data_again.cuh"
#include "gpu/convolution/sliding/data_tile.cuh"

namespace gradnn::gpu::sliding {

template <data_specification s>
struct data_walk : data_tile<s> {
    using tile = data_tile<s>;
    using tile::advance, tile::advance_and_load, tile::all_weights,
            tile::channel, tile::channels, tile::copy_group, tile::cut,
            tile::element_of, tile::find_outside, tile::first_column,
            tile::first_depth, tile::first_row, tile::g, tile::grouped,
            tile::image, tile::in_class, tile::last_row, tile::last_step,
            tile::load, tile::newest, tile::next, tile::next_step, tile::oldest,
            tile::on_their_way, tile::open, tile::others, tile::p, tile::read,
            tile::read_from, tile::row_pitch, tile::row_step, tile::staged,
            tile::take, tile::take_row, tile::weights, tile::written;
    using typename tile::copied_rows, typename tile::sum_type,
            typename tile::type;

    __device__ void multiply(int slot) {
        constexpr int width = g.units.count * g.units.vector;
        if constexpr (g.copied) take(slot);
        sum_type values[g.walk.phases][g.depth_slots][width][channels];
#pragma unroll
        for (int f = 0; f < g.walk.phases; ++f)
#pragma unroll
            for (int z = 0; z < g.depth_slots; ++z)
#pragma unroll
                for (int x = 0; x < width; ++x)
#pragma unroll
                    for (int e = 0; e < channels; ++e)
                        if (g.depth_used[z] && g.units.used[x / g.units.vector]
                                && g.phase_used[f])
                            values[f][z][x][e] = element_of(slot, f, z, x, e);
        if (!g.copied && (!grouped || checked_now))
            advance_and_load(slot, checked_now);
#pragma unroll
        for (int f = 0; f < g.walk.phases; ++f)
#pragma unroll
            for (int kh = 0; kh < p.row.taps; ++kh) {
                const int a = g.sum_of[f][kh];
                if (a < 0) continue;
#pragma unroll
                for (int o = 0; o < cut.depths; ++o)
#pragma unroll
                    for (int kd = 0; kd < p.depth.taps; ++kd) {
                        const int z = g.depth_met[kd][o];
                        if (z < 0) continue;
#pragma unroll
                        for (int kw = 0; kw < p.column.taps; ++kw)
#pragma unroll
                            for (int j = 0; j < cut.columns; ++j) {
                                const int x = g.units.met[kw][j];
                                if (x < 0) continue;
#pragma unroll
                                for (int v = 0; v < cut.vector; ++v)
#pragma unroll
                                    for (int m = 0; m < p.multiplier; ++m)
                                        open[a][o][j][v] = multiply_add(
                                                values[f][z][x][p.channels_last
                                                                ? v * p.multiplier
                                                                        + m
                                                                : m],
                                                weights[m][kd][kh][kw][v],
                                                open[a][o][j][v]);
                            }
                    }
            }
    }
    // Set by `step` around multiply, whose loads stand between conversions and products.
    bool checked_now;
    /// Whether the rows of a body without tests are looked through for NaN together.
    static constexpr bool gathers = cut.unroll >= 4;
    bool any_nan;

    __device__ void write_row(int a, int row, bool zeros) {
        type *const at = row_at(row);
#pragma unroll
        for (int o = 0; o < cut.depths; ++o) {
            if (g.depth_tiles * cut.depths > p.depth.written
                    && first_depth + o >= p.depth.written)
                continue;
            constexpr int step = p.channels_last ? 1 : g.write_vector;
#pragma unroll
            for (int j = 0; j < cut.columns; j += step) {
                if (g.tiles * cut.columns > p.column.written
                        && first_column + j * g.column_step >= p.column.written)
                    continue;
                sum_type values[g.write_vector];
#pragma unroll
                for (int e = 0; e < g.write_vector; ++e)
                    values[e] = zeros         ? sum_type(0)
                            : p.channels_last ? open[a][o][j][e]
                                              : open[a][o][j + e][0];
                store_results<s>(at + o * result_depth<s>()
                                + j * g.column_step * result_column<s>(),
                        values, others);
            }
        }
        if (zeros) return;
        bool is_nan = gathers && !checked_now && any_nan;
#pragma unroll
        for (int o = 0; o < cut.depths; ++o)
#pragma unroll
            for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                for (int v = 0; v < cut.vector; v += 2)
                    is_nan |= either_is_nan(open[a][o][j][v],
                            open[a][o][j][v + 1 < cut.vector ? v + 1 : v]);
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
    __device__ type *row_at(int row) const {
        return written
                + static_cast<long long>(row) * g.walk.classes
                * (staged ? p.column.written : p.written.row);
    }

    /// Step u, whose rows are in a slot of the ring.
    __device__ void step(int u, int slot, bool checked) {
        checked_now = checked;
        if (grouped && checked) take_row(0);
        multiply(slot);
#pragma unroll
        for (int a = 0; a < p.row.up; ++a) {
            const int row = p.row.up * u + g.walk.shift + a;
            if (!checked
                    || (row >= first_row && (p.row.up == 1 || row < last_row)))
                write_row(a, row, false);
        }
#pragma unroll
        for (int a = 0; a < g.walk.open; ++a)
#pragma unroll
            for (int o = 0; o < cut.depths; ++o)
#pragma unroll
                for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        open[a][o][j][v] = a + p.row.up < g.walk.open
                                ? open[a + p.row.up < g.walk.open ? a + p.row.up
                                                                  : 0][o][j][v]
                                : sum_type(0);
    }

    /// Steps without tests, of rows in slots from `first` on.
    __device__ void body(int u, int first) {
        any_nan = false;
        if constexpr (grouped) {
#pragma unroll
            for (int i = 0; i < cut.unroll; ++i)
                take_row(i);
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
        for (int row = first_row; row < least(met, last_row); ++row)
            write_row(0, row, true);
        if (u > last_step) return;
#pragma unroll
        for (int a = 0; a < g.walk.open; ++a)
#pragma unroll
            for (int o = 0; o < cut.depths; ++o)
#pragma unroll
                for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        open[a][o][j][v] = 0;
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
        const int rest = up * u + shift;
#pragma unroll
        for (int a = 0; a < g.walk.open - up; ++a)
            if (rest + a >= first_row && rest + a < last_row)
                write_row(a, rest + a, false);
        for (int row = most(first_row, rest + most(g.walk.open - up, 0));
                row < last_row; ++row)
            write_row(0, row, true);
    }
};

} // namespace gradnn::gpu::sliding
