// Data by windows too large for registers, or long ones of one row (data.cuh has the formula):
// a thread has a tile of one row of results, and the window's rows, or some taps of one, pass by
// in a loop. A block's channels, or planes, have their weights in shared memory.
#pragma once

#include "gpu/convolution/sliding/data_walk.cuh"

namespace gradnn::gpu::sliding {

/// A row of taps that pass by, some at a time, whose weights are `lanes` apart. What is read is
/// given for the tile's first result.
template <const kernel_specification &s>
__device__ __forceinline__ void data_walk<s>::add_taps(
        const type *from, const sum_type *by) {
    constexpr int vector = g.read.columns.vector;
    // In NCX zeros follow the weights of a row.
    constexpr int each = p.channels_last ? 1 : 16 / sum_bytes_of(p.type);
    // Of a chunk, from the vector with what its last tap meets.
    constexpr int low = p.column.base - (cut.chunk - 1);
    constexpr int unit = floor_div(low, vector) * vector;
    constexpr int past = low - unit;
    constexpr int count = ceil_div(past + cut.columns + cut.chunk - 1, vector);
#pragma unroll 1
    for (int k = 0; k < p.column.taps; k += cut.chunk) {
        elements<p.type, vector> loaded[count];
        const int first = first_column + unit - k;
        const bool inside = !p.channels_last && first >= 0
                && first + count * vector <= p.column.read;
        const auto load = [&](bool all) {
            for_each<count>([&](int i) {
                load_into(loaded[i],
                        from + (unit - k + i * vector) * g.read.from.column,
                        all || is_one_of(first + i * vector, p.column.read));
            });
        };
        if (inside)
            load(true);
        else
            load(false);
#pragma unroll
        for (int e = 0; e < cut.chunk; e += each) {
            elements<type_of_sums, each> some;
            load_into(some, by + (k + e) * cut.lanes,
                    !p.channels_last || k + e < p.column.taps);
            for_each<each, cut.columns>([&](int i, int j) {
                const int x = past + cut.chunk - 1 - e - i + j;
                open[0][0][j][0] = multiply_add(loaded[x / vector][x % vector],
                        some[i], open[0][0][j][0]);
            });
        }
    }
}

/// The products of a row that was loaded, by the weights of a row of taps.
template <const kernel_specification &s>
__device__ __forceinline__ void data_walk<s>::add_row(const sum_type *by) {
    constexpr auto &columns = g.read.columns;
    constexpr int width = columns.count * columns.vector;
    sum_type values[width][channels];
    for_each<width, channels>([&](int x, int m) {
        if (columns.used[x / columns.vector])
            values[x][m] = rows.element_of(0, 0, 0, x, m);
    });
    for_each<p.column.taps, channels>([&](int kw, int m) {
        const auto weights_of = weights_at(by, m, kw);
        for_each<cut.columns, cut.vector>([&](int j, int v) {
            const int x = columns.met[kw][j];
            if (x >= 0)
                open[0][0][j][v] = multiply_add(
                        values[x][m], weights_of[v], open[0][0][j][v]);
        });
    });
}

/// The thread's rows of results.
template <const kernel_specification &s>
__device__ void data_walk<s>::pass_by() {
    rows.find_outside(read_column, p.column.read, read_depth);
#pragma unroll 1
    for (int row = first_row; row < last_row; ++row) {
        move_up(1);
#pragma unroll 1
        for (int kh = p.row.taps - 1; kh >= 0; --kh) {
            const int y = row * p.row.step + p.row.base - kh * p.row.dilation;
            if (y < 0 || y % p.row.up || y / p.row.up >= p.row.read) continue;
#pragma unroll 1
            for (int kd = 0; kd < p.depth.taps; ++kd) {
                const int z = first_depth * p.depth.step + p.depth.base
                        - kd * p.depth.dilation;
                if (z < 0 || z % p.depth.up || z / p.depth.up >= p.depth.read)
                    continue;
                const sum_type *const by = shared_weights
                        + place_of_weight(0, tap_of(kd, kh, 0), 0, 0);
                const type *const at = read
                        + (z / p.depth.up - read_depth) * g.read.from.depth
                        + y / p.row.up * g.read.from.row;
                if constexpr (cut.chunk > 0) {
                    add_taps(at, by);
                    continue;
                }
#pragma unroll 1
                for (int m = 0; m < p.multiplier; m += channels) {
                    rows.load(0, at + m * g.read.from.channel,
                            [](int) { return true; });
                    add_row(by + place_of_weight(m, 0, 0, 0));
                }
            }
        }
        load_others<1>(0, row, false);
        write_row(0, row, 0, false);
    }
}

} // namespace gradnn::gpu::sliding
