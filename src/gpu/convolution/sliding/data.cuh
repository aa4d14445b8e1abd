// Convolution of few channels to a group, data: the gradient of src, or the forward direction
// (README.md has the formula). A thread's tile walks along the rows that are read
// (data_walk.cuh), or taps pass it by (data_rows.cuh). Every element has its terms in one order,
// by rows, then depths, columns and channels, whatever the tile: the bits follow from the
// problem alone. Taps that meet nothing in any tile are left out.
//
// In NCX a block may collect the results of whole planes in shared memory, to write them by
// vectors wherever rows begin, and may have what it reads copied there at once.
//
// A zero stands for what lies outside: a sum that is NaN is taken again from the definition.
#pragma once

#include "gpu/convolution/sliding/data_rows.cuh"

namespace gradnn::gpu::sliding {

/// A weight. Channels are those of the tensor with fewer.
template <const kernel_specification &s>
__device__ __forceinline__ typename data_walk<s>::sum_type data_walk<
        s>::weight_of(const type *all, int channel, int m, int kd, int kh,
        int kw) {
    if (p.reversed) {
        kd = p.depth.taps - 1 - kd;
        kh = p.row.taps - 1 - kh;
        kw = p.column.taps - 1 - kw;
    }
    return widen<p.type>(*(all + channel / p.group * p.weights.group
            + channel % p.group * p.weights.channel + m * p.weights.multiple
            + kd * p.weights.depth + kh * p.weights.row
            + kw * p.weights.column));
}

/// In shared memory, of so many lanes.
template <const kernel_specification &s>
__device__ __forceinline__ int data_walk<s>::place_of_weight(
        int m, int tap, int piece, int lane) {
    return (((m * taps + tap) * weights_pieces(p, cut.vector) + piece)
                           * lanes_of_weights
                   + lane)
            * weights_at_once(p, cut.vector);
}
template <const kernel_specification &s>
__device__ __forceinline__ typename data_walk<s>::vector_of_weights data_walk<
        s>::weights_at(const sum_type *of_lane, int m, int tap) {
    vector_of_weights loaded;
    for_each<weights_pieces(p, cut.vector)>([&](int piece) {
        load_into(loaded.all[piece],
                of_lane + place_of_weight(m, tap, piece, 0), true);
    });
    return loaded;
}

/// The products of rows of each phase, with each weight from shared memory for all results that
/// it meets. A sum has its terms in the same order as from registers.
template <const kernel_specification &s>
template <typename Values>
__device__ __forceinline__ void data_walk<s>::multiply_shared(
        const Values &values) {
    // Loads stay in their loop and are made in each turn: registers do not hold all of them.
    asm volatile("" ::: "memory");
    for_each<g.walk.phases, p.row.taps, p.depth.taps, p.column.taps,
            p.multiplier>([&](int f, int kh, int kd, int kw, int m) {
        const int a = g.sum_of[f][kh];
        if (a < 0) return;
        const auto by = weights_at(shared_weights, m, tap_of(kd, kh, kw));
        for_each<cut.depths, cut.columns, cut.vector>([&](int o, int j, int v) {
            const int z = g.read.depths.met[kd][o];
            const int x = g.read.columns.met[kw][j];
            if (z >= 0 && x >= 0)
                open[a][o][j][v] = multiply_add(
                        values[f][z][x][m], by[v], open[a][o][j][v]);
        });
    });
}

/// By all threads of a block, weights of so many channels, whose numbers channel_of says, to
/// shared memory: channel by channel, zeros after the last taps of chunks, or side by side for
/// threads that take them from there at each row.
template <const kernel_specification &s>
template <typename Channel>
__device__ void data_walk<s>::share_weights(
        sum_type *to, int count, const Channel &channel_of) const {
    constexpr int pitch = most(taps, g.weights_pitch);
    constexpr int of_channel = p.multiplier * pitch;
    constexpr int at_once = weights_at_once(p, cut.vector);
    for (int i = threadIdx.x; i < count * of_channel; i += cut.threads) {
        const int k = i % pitch;
        const int c = i / of_channel;
        const int m = i / pitch % p.multiplier;
        const int v = c % cut.vector;
        const int side_by_side
                = place_of_weight(m, k, v / at_once, c / cut.vector)
                + v % at_once;
        const int of = channel_of(c);
        if (of < p.channels)
            to[keeps_weights || g.weights_pitch ? i : side_by_side] = k < taps
                    ? weight_of(all_weights, of, m,
                            k / (p.row.taps * p.column.taps),
                            k / p.column.taps % p.row.taps, k % p.column.taps)
                    : sum_type(0);
    }
}
/// To registers, from where a block's channels share them, or from memory.
template <const kernel_specification &s>
__device__ void data_walk<s>::load_weights(const sum_type *shared, int lane) {
    for_each<p.multiplier, p.depth.taps, p.row.taps, p.column.taps, cut.vector>(
            [&](int m, int kd, int kh, int kw, int v) {
                const int of_channel = lane * cut.vector + v,
                          tap = tap_of(kd, kh, kw);
                weights[m][tap][v] = shared
                        ? shared[(of_channel * p.multiplier + m) * taps + tap]
                        : weight_of(all_weights, channel + v, m, kd, kh, kw);
            });
}

/// A row of a tile again, over nothing but the terms of the formula.
template <const kernel_specification &s>
__device__ __noinline__ void data_walk<s>::write_again(const type *read,
        const type *weights, type *at, int image, int first_channel,
        int first_depth, int row, int first_column, fused_places others) {
    constexpr int at_once = multiples_at_once(p);
    constexpr int of_row = p.multiplier / at_once * p.column.taps;
#pragma unroll 1
    for (int e = 0; e < cut.depths * cut.columns * cut.vector; ++e) {
        const int channel = first_channel + e % cut.vector;
        const int j = e / cut.vector % cut.columns;
        const int o = e / (cut.vector * cut.columns);
        const int column = first_column + j * g.column_step;
        const int depth = first_depth + o;
        if (column >= p.column.written || depth >= p.depth.written) continue;
        sum_type total = 0;
#pragma unroll 1
        for (int t = 0; t < p.depth.taps * p.row.taps * of_row; ++t) {
            // In the order of the walk, whose rows of read ascend.
            const int kh = p.row.taps - 1 - t / (p.depth.taps * of_row);
            const int kd = t / of_row % p.depth.taps;
            const int first = t % of_row / p.column.taps * at_once;
            const int kw = t % p.column.taps;
            int z = depth * p.depth.step + p.depth.base - kd * p.depth.dilation;
            int y = row * p.row.step + p.row.base - kh * p.row.dilation;
            int x = column * p.column.step + p.column.base
                    - kw * p.column.dilation;
            if (z < 0 || y < 0 || x < 0 || z % p.depth.up || y % p.row.up
                    || x % p.column.up)
                continue;
            z /= p.depth.up;
            y /= p.row.up;
            x /= p.column.up;
            if (z >= p.depth.read || y >= p.row.read || x >= p.column.read)
                continue;
#pragma unroll 1
            for (int m = first; m < first + at_once; ++m)
                total = multiply_add(
                        widen<p.type>(read[image * p.read.image
                                + (static_cast<long long>(channel / p.group)
                                                  * p.multiplier
                                          + m)
                                        * p.read.channel
                                + z * p.read.depth + y * p.read.row
                                + x * p.read.column]),
                        weight_of(weights, channel, m, kd, kh, kw), total);
        }
        type *const to = at + o * g.to.depth + j * g.column_step * g.to.column
                + e % cut.vector * g.to.channel;
        auto made = elements<p.type, 1>::of({total});
        // Those in shared memory meet the ops behind the problem when they leave it.
        if constexpr (!staged) made = with_epilogue(p, made, to, others);
        made.store(to);
    }
}

/// A thread's tile in tensors as they lie.
template <const kernel_specification &s>
__device__ __forceinline__ void data_walk<s>::of_tensors(type *tensor) {
    const unsigned thread = threadIdx.x;
    const unsigned channel_block = blockIdx.x % g.channel_blocks;
    const unsigned lane = thread % cut.lanes;
    unsigned rest
            = blockIdx.x / g.channel_blocks * g.of_block + thread / cut.lanes;
    channel = channel_block * cut.lanes * cut.vector;
    // In NXC a block's weights are the same few: they go through shared memory.
    constexpr int block_weights = cut.lanes * cut.vector * p.multiplier * taps;
    sum_type *shared = nullptr;
    if constexpr (!keeps_weights) {
        shared = reinterpret_cast<sum_type *>(dynamic_shared());
    } else if constexpr (p.channels_last
            && block_weights * sum_bytes_of(p.type) <= 46000) {
        __shared__ sum_type of_block[block_weights];
        shared = of_block;
    }
    if (shared) {
        const int first = channel;
        share_weights(shared, cut.lanes * cut.vector,
                [first](int c) { return first + c; });
        __syncthreads();
    }
    if (thread >= cut.lanes * g.of_block || rest >= g.items) return;
    channel += lane * cut.vector;
    if (p.channels_last && channel >= p.channels) return;
    const int tile = digit_of(rest, g.tiles);
    int depth_tile = 0;
    if constexpr (p.channels_last) depth_tile = digit_of(rest, g.depth_tiles);
    const int strip = digit_of(rest, g.strips);
    in_class = digit_of(rest, g.walk.classes);
    if constexpr (!p.channels_last) {
        depth_tile = digit_of(rest, g.depth_tiles);
        if constexpr (keeps_weights)
            channel = digit_of(rest, p.channels / cut.vector) * cut.vector;
    }
    image = rest;
    if constexpr (keeps_weights)
        load_weights(shared, lane);
    else
        shared_weights = shared + place_of_weight(0, 0, 0, lane);
    begin_at(plane_in_tensor(),
            first_column_of(tile, cut.columns, g.column_step),
            depth_tile * cut.depths);
    first_row = strip * cut.strip;
    last_row = least(first_row + cut.strip,
            (p.row.written - in_class + g.walk.classes - 1) / g.walk.classes);
    written = tensor + image * p.written.image
            + static_cast<long long>(channel) * p.written.channel
            + first_depth * p.written.depth + in_class * p.written.row
            + first_column * p.written.column;
    if constexpr (cut.row_by_row)
        pass_by();
    else
        walk();
}

/// A block's planes, whose results lie in shared memory until all are there.
template <const kernel_specification &s>
__device__ __forceinline__ void data_walk<s>::of_planes(type *tensor) {
    constexpr int vector = 16 / bytes_of(p.type);
    constexpr int plane = p.row.written * p.column.written;
    const unsigned thread = threadIdx.x;
    type *const shared_read = reinterpret_cast<type *>(dynamic_shared());
    const unsigned block = blockIdx.x / g.bands;
    const int band = static_cast<int>(blockIdx.x % g.bands) * cut.band;
    const unsigned units
            = p.images * p.channels * (cut.volumes ? 1 : g.depth_tiles);
    const unsigned first_unit = block * cut.planes;
    const unsigned here = least(cut.planes, units - first_unit);
    const long long first = static_cast<long long>(first_unit)
                    * (g.bands > 1 ? plane : g.unit_elements)
            + band * p.column.written;
    const int count = g.bands > 1
            ? least(cut.band, p.row.written - band) * p.column.written
            : static_cast<int>(here) * g.unit_elements;
    // Shared memory and memory are at the same place in a vector.
    const auto past = p.alignment == 16
            ? first % vector
            : static_cast<long long>(reinterpret_cast<uintptr_t>(tensor + first)
                    % 16 / sizeof(type));
    type *const results = shared_read + g.read_bytes / bytes_of(p.type) + past;
    const long long read_at
            = static_cast<long long>(first_unit) * g.read_elements;
    const int before = read_at % vector;
    sum_type *const weights_here
            = reinterpret_cast<sum_type *>(dynamic_shared() + g.weights_at);
    if constexpr (!keeps_weights) {
        share_weights(weights_here, cut.planes, [first_unit](int c) {
            return static_cast<int>((first_unit + c)
                    / (cut.volumes ? 1 : g.depth_tiles) % p.channels);
        });
        if constexpr (!staged_read) __syncthreads();
    }
    if constexpr (staged_read)
        copy_to_shared<p.bulk_copies>(shared_read,
                tensor_read + read_at - before,
                before + static_cast<int>(here) * g.read_elements, cut.threads);

    unsigned rest = thread;
    const int tile = digit_of(rest, g.tiles);
    const int strip = digit_of(rest, g.strips);
    in_class = digit_of(rest, g.walk.classes);
    int depth_tile = cut.volumes ? digit_of(rest, g.depth_tiles) : 0;
    const int of_block = rest * cut.vector;
    unsigned unit = first_unit + of_block;
    if (thread < g.items && unit < units) {
        if constexpr (!cut.volumes) depth_tile = digit_of(unit, g.depth_tiles);
        channel = digit_of(unit, p.channels);
        image = unit;
        if constexpr (keeps_weights)
            load_weights(nullptr, 0);
        else
            shared_weights = weights_here
                    + (cut.row_by_row ? of_block * g.weights_pitch
                                      : place_of_weight(
                                              0, 0, 0, of_block / cut.vector));
        begin_at(staged_read ? shared_read + before + of_block * g.read_elements
                             : plane_in_tensor(),
                tile * cut.columns, depth_tile * cut.depths);
        first_row = band + strip * cut.strip;
        last_row = least(least(first_row + cut.strip, band + g.rows),
                (p.row.written - in_class + g.walk.classes - 1)
                        / g.walk.classes);
        written = results + of_block * g.unit_elements
                + (in_class - band) * p.column.written + first_column;
        if constexpr (cut.volumes) written += first_depth * plane;
        if constexpr (cut.row_by_row)
            pass_by();
        else
            walk();
    }
    __syncthreads();
    write_from_shared<p>(tensor + first, results, count, cut.threads, others);
}

/// By the form that the specification says.
template <const kernel_specification &s>
__device__ void slide_data(const stored_of<s.of.type> *read,
        const stored_of<s.of.type> *weights, stored_of<s.of.type> *written,
        const fused_places &others) {
    wait_and_let_later_work_start();
    data_walk<s> thread;
    thread.tensor_read = read;
    thread.all_weights = weights;
    thread.others = others;
    if constexpr (s.cut.staged == staging::none)
        thread.of_tensors(written);
    else
        thread.of_planes(written);
}

} // namespace gradnn::gpu::sliding
