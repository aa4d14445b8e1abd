// Depthwise convolution, data, by windows too large for registers (data.cuh has the
// formula). A thread has a tile of one row of results, and the window's rows pass by in a
// loop. A block's channels share their weights in shared memory; in NXC neighbouring
// threads have neighbouring channels.
#pragma once

#include "gpu/convolution/sliding/data_walk.cuh"

namespace gradnn::gpu::sliding {

/// The weights of a block's planes, zeros after their last taps.
template <const kernel_specification &s>
__device__ void stage_long_rows_weights(sum<s.of.type> *to,
        const storage<s.of.type> *weights, unsigned first_unit, int units) {
    constexpr problem_specification p = s.of;
    constexpr const data_geometry &g = geometry_for<s, data_geometry>::g;
    for (int i = threadIdx.x; i < units * g.weights_pitch; i += s.cut.threads) {
        const int k = i % g.weights_pitch;
        const unsigned channel = (first_unit + i / g.weights_pitch)
                / (s.cut.volumes ? 1 : g.depth_tiles) % p.channels;
        to[i] = k < p.column.taps
                ? widen<p.type>(*(weights + weight_at<p>(channel, 0, 0, 0, k)))
                : sum<p.type>(0);
    }
}

/// A row of taps that pass by, some at a time. What is read and its column are given for the
/// tile's first result, whose neighbours' sums follow; taps' weights are `lanes` apart.
template <const kernel_specification &s, typename Sum>
__device__ __forceinline__ void add_taps(const storage<s.of.type> *from,
        int column, const sum<s.of.type> *by, const Sum &sum_of) {
    constexpr problem_specification p = s.of;
    constexpr work_cut cut = s.cut;
    constexpr const row_table &table = geometry_for<s, data_geometry>::g.read;
    constexpr int vector = table.columns.vector;
    constexpr element type_of_sums
            = p.type == element::f64 ? element::f64 : element::f32;
    // In NCX zeros follow the weights of a row.
    constexpr int each = p.channels_last ? 1 : 16 / sum_bytes_of(p.type);
    // Of a chunk, from the vector with what its last tap meets.
    constexpr int low = p.column.base - (cut.chunk - 1);
    constexpr int unit = floor_div(low, vector) * vector;
    constexpr int past = low - unit;
    constexpr int count = ceil_div(past + cut.columns + cut.chunk - 1, vector);
#pragma unroll 1
    for (int k = 0; k < p.column.taps; k += cut.chunk) {
        jit::elements<p.type, vector> loaded[count];
        const int first = column + unit - k;
        const bool inside = !p.channels_last && first >= 0
                && first + count * vector <= p.column.read;
        const auto load = [&](bool all) {
#pragma unroll
            for (int i = 0; i < count; ++i)
                load_into(loaded[i],
                        from + (unit - k + i * vector) * table.from.column,
                        all
                                || static_cast<unsigned>(first + i * vector)
                                        < static_cast<unsigned>(p.column.read));
        };
        if (inside)
            load(true);
        else
            load(false);
#pragma unroll
        for (int e = 0; e < cut.chunk; e += each) {
            jit::elements<type_of_sums, each> some;
            load_into(some, by + (k + e) * cut.lanes,
                    !p.channels_last || k + e < p.column.taps);
#pragma unroll
            for (int i = 0; i < each; ++i)
#pragma unroll
                for (int j = 0; j < cut.columns; ++j) {
                    const int x = past + cut.chunk - 1 - e - i + j;
                    sum_of(j) = multiply_add(
                            loaded[x / vector][x % vector], some[i], sum_of(j));
                }
        }
    }
}

/// A thread's rows of results, by a long window of one row. What it reads and where it writes
/// lie in shared memory.
template <const kernel_specification &s>
__device__ void long_rows_of_thread(
        data_walk<s> &t, const sum<s.of.type> *weights) {
#pragma unroll 1
    for (int row = t.first_row; row < t.last_row; ++row) {
        t.move_up(1);
        add_taps<s>(
                t.read + row * t.g.read.from.row, t.first_column,
                weights, [&](int j) -> sum<s.of.type> & {
                    return t.open[0][0][j][0];
                });
        t.write_row(0, row, 0, false);
    }
}

template <const kernel_specification &s>
__device__ void data_row_by_row(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written,
        const fused_places &others) {
    constexpr problem_specification p = s.of;
    constexpr work_cut cut = s.cut;
    constexpr const data_geometry &g = geometry_for<s, data_geometry>::g;
    constexpr auto &columns = geometry_for<s, data_geometry>::g.read.columns;
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    constexpr int taps = p.depth.taps * p.row.taps * p.column.taps;
    constexpr int of_channel = p.multiplier * taps;
    sum_type *const shared
            = reinterpret_cast<sum_type *>(jit::dynamic_shared());
    const int thread = static_cast<int>(threadIdx.x);
    const int channel_block = static_cast<int>(blockIdx.x % g.channel_blocks);
    const int lane = thread % cut.lanes;
    const int channel = channel_block * cut.lanes + lane;
    for (int i = thread; i < cut.lanes * of_channel; i += cut.threads) {
        // Threads that follow one another read weights that do.
        const int k = i % taps;
        const int m = i / taps % p.multiplier;
        const int c = i / of_channel;
        if (channel_block * cut.lanes + c < p.channels)
            shared[(m * taps + k) * cut.lanes + c] = widen<p.type>(*(weights
                    + weight_at<p>(channel_block * cut.lanes + c, m,
                            k / (p.row.taps * p.column.taps),
                            k / p.column.taps % p.row.taps,
                            k % p.column.taps)));
    }
    __syncthreads();
    unsigned rest
            = blockIdx.x / g.channel_blocks * g.of_block + thread / cut.lanes;
    if (thread >= cut.lanes * g.of_block || rest >= g.items
            || channel >= p.channels)
        return;
    const int tile = digit_of(rest, g.tiles);
    const int row = digit_of(rest, p.row.written);
    const int depth = rest % p.depth.written;
    const int image = rest / p.depth.written;
    const int first_column = first_column_of(tile, cut.columns, g.column_step);
    const int read_column = first_column * p.column.step / p.column.up;
    bool inside[columns.count];
#pragma unroll
    for (int unit = 0; unit < columns.count; ++unit)
        inside[unit] = columns.is_inside(unit, read_column, p.column.read);
    sum_type totals[cut.columns];
#pragma unroll
    for (int j = 0; j < cut.columns; ++j)
        totals[j] = 0;
    const type *const from = read + image * p.read.image
            + static_cast<long long>(channel) * p.multiplier * p.read.channel
            + read_column * p.read.column;
#pragma unroll 1
    for (int kh = p.row.taps - 1; kh >= 0; --kh) {
        const int y = row * p.row.step + p.row.base - kh * p.row.dilation;
        if (y < 0 || y % p.row.up || y / p.row.up >= p.row.read) continue;
#pragma unroll 1
        for (int kd = 0; kd < p.depth.taps; ++kd) {
            const int z = depth * p.depth.step + p.depth.base
                    - kd * p.depth.dilation;
            if (z < 0 || z % p.depth.up || z / p.depth.up >= p.depth.read)
                continue;
            const sum_type *const by = shared
                    + (kd * p.row.taps + kh) * p.column.taps * cut.lanes + lane;
            const type *const at = from + z / p.depth.up * p.read.depth
                    + y / p.row.up * p.read.row;
            if constexpr (cut.chunk > 0) {
                add_taps<s>(at, first_column, by,
                        [&](int j) -> sum_type & { return totals[j]; });
                continue;
            }
            jit::elements<p.type, columns.vector> loaded[p.multiplier]
                                                        [columns.count];
#pragma unroll
            for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
                for (int unit = 0; unit < columns.count; ++unit)
                    if (columns.used[unit])
                        load_into(loaded[m][unit],
                                at + m * p.read.channel
                                        + columns.at[unit] * p.read.column,
                                inside[unit]);
#pragma unroll
            for (int kw = 0; kw < p.column.taps; ++kw)
#pragma unroll
                for (int m = 0; m < p.multiplier; ++m) {
                    const sum_type weight = by[(m * taps + kw) * cut.lanes];
#pragma unroll
                    for (int j = 0; j < cut.columns; ++j) {
                        const int x = columns.met[kw][j];
                        if (x < 0) continue;
                        totals[j] = multiply_add(loaded[m][x / columns.vector]
                                                       [x % columns.vector],
                                weight, totals[j]);
                    }
                }
        }
    }
    type *const to = written + image * p.written.image
            + static_cast<long long>(channel) * p.written.channel
            + depth * p.written.depth
            + static_cast<long long>(row) * p.written.row
            + first_column * p.written.column;
    bool is_nan = false;
    constexpr int step = p.channels_last ? 1 : g.write_vector;
#pragma unroll
    for (int j = 0; j < cut.columns; j += step) {
        if (first_column + j * g.column_step >= p.column.written) continue;
        sum_type values[step];
#pragma unroll
        for (int e = 0; e < step; ++e) {
            values[e] = totals[j + e];
            is_nan |= totals[j + e] != totals[j + e];
        }
        store_results<s>(
                to + j * g.column_step * p.written.column, values, others);
    }
    if (is_nan)
        write_again<s>(read, weights, to, image, channel, depth, row,
                first_column, others);
}

} // namespace gradnn::gpu::sliding
