// Depthwise convolution, data: the gradient of src, or the forward direction.
//
//   written[n,c,x] = sum over m and k of weights[c,m,k] * read[n,c*multiplier+m,y],
//                    where y * up = x * step + base - k * dilation
//
// A thread has a tile of columns (in NXC of a vector of channels, in volumes of some depths)
// and walks along the rows of what is read. It loads each row once, some rows ahead, and adds
// its products to the open sums of the rows of written that it meets; when a row has met all
// that it meets, it is written and the sums move up. Every element has its terms in one
// order, by rows, then depths, columns and channels, whatever the tile: the bits follow from
// the problem alone. Taps that meet nothing in any tile are left out.
//
// In NCX a block may collect the results of whole planes in shared memory, to write them by
// vectors wherever rows begin, and may have what it reads copied there at once.
//
// A zero stands for what lies outside: a sum that is NaN is taken again from the definition.
#pragma once

#include "gpu/convolution/sliding/data_rows.cuh"

namespace gradnn::gpu::sliding {

/// A thread's tile in tensors as they lie.
template <const kernel_specification &s>
__device__ void data_of_thread(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written,
        const fused_places &others) {
    using walk_type = data_walk<s>;
    constexpr problem_specification p = s.of;
    constexpr work_cut cut = s.cut;
    constexpr const data_geometry &g = geometry_for<s, data_geometry>::g;
    walk_type t;
    const unsigned thread = threadIdx.x;
    const unsigned channel_block = blockIdx.x % g.channel_blocks;
    const unsigned lane = thread % cut.lanes;
    unsigned rest
            = blockIdx.x / g.channel_blocks * g.of_block + thread / cut.lanes;
    // In NXC a block's weights are the same few: they go through shared memory.
    constexpr int block_weights = cut.lanes * cut.vector * p.multiplier
            * p.depth.taps * p.row.taps * p.column.taps;
    constexpr bool shares_weights
            = p.channels_last && block_weights * sum_bytes_of(p.type) <= 46000;
    const sum<p.type> *shared = nullptr;
    if constexpr (shares_weights) {
        __shared__ sum<p.type> of_block[block_weights];
        constexpr int taps = p.depth.taps * p.row.taps * p.column.taps;
        for (int i = thread; i < block_weights; i += cut.threads) {
            const int k = i % taps;
            const int m = i / taps % p.multiplier;
            const int c = i / (taps * p.multiplier)
                    + static_cast<int>(channel_block) * cut.lanes * cut.vector;
            if (c < p.channels)
                of_block[i] = widen<p.type>(*(weights
                        + weight_at<p>(c, m, k / (p.row.taps * p.column.taps),
                                k / p.column.taps % p.row.taps,
                                k % p.column.taps)));
        }
        __syncthreads();
        shared = of_block;
    }
    if (thread >= cut.lanes * g.of_block || rest >= g.items) return;
    t.channel = (channel_block * cut.lanes + lane) * cut.vector;
    if (p.channels_last && t.channel >= p.channels) return;
    const int tile = digit_of(rest, g.tiles);
    int depth_tile = 0;
    if constexpr (p.channels_last) depth_tile = digit_of(rest, g.depth_tiles);
    const int strip = digit_of(rest, g.strips);
    t.in_class = digit_of(rest, g.walk.classes);
    if constexpr (!p.channels_last) {
        depth_tile = digit_of(rest, g.depth_tiles);
        t.channel = digit_of(rest, p.channels);
    }
    t.image = rest;
    t.all_weights = weights;
    t.others = others;
    t.load_weights(shared, lane);
    t.begin_at(first_column_of(tile, cut.columns, g.column_step),
            depth_tile * cut.depths);
    t.first_row = strip * cut.strip;
    t.last_row = least(t.first_row + cut.strip,
            (p.row.written - t.in_class + g.walk.classes - 1) / g.walk.classes);
    t.read_from = read;
    t.read = read + t.image * p.read.image
            + static_cast<long long>(t.channel) * p.multiplier * p.read.channel
            + t.read_depth * p.read.depth + t.read_column * p.read.column;
    t.written = written + t.image * p.written.image
            + static_cast<long long>(t.channel) * p.written.channel
            + t.first_depth * p.written.depth + t.in_class * p.written.row
            + t.first_column * p.written.column;
    t.walk();
}

/// A block's planes, whose results lie in shared memory until all are there.
template <const kernel_specification &s>
__device__ void data_of_planes(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written,
        const fused_places &others) {
    using walk_type = data_walk<s>;
    using type = storage<s.of.type>;
    constexpr problem_specification p = s.of;
    constexpr work_cut cut = s.cut;
    constexpr const data_geometry &g = geometry_for<s, data_geometry>::g;
    constexpr int vector = 16 / bytes_of(p.type);
    constexpr int plane = p.row.written * p.column.written;
    const unsigned thread = threadIdx.x;
    type *const shared_read = reinterpret_cast<type *>(jit::dynamic_shared());
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
            : static_cast<long long>(
                    reinterpret_cast<uintptr_t>(written + first) % 16
                    / sizeof(type));
    type *const results = shared_read + g.read_bytes / bytes_of(p.type) + past;
    const long long read_at
            = static_cast<long long>(first_unit) * g.read_elements;
    const int before = read_at % vector;
    sum<p.type> *const shared_weights = reinterpret_cast<sum<p.type> *>(
            jit::dynamic_shared() + g.weights_at);
    if constexpr (cut.row_by_row)
        stage_long_rows_weights<s>(
                shared_weights, weights, first_unit, static_cast<int>(here));
    if constexpr (walk_type::staged_read)
        copy_to_shared<p.bulk_copies>(shared_read, read + read_at - before,
                before + static_cast<int>(here) * g.read_elements, cut.threads);

    unsigned rest = thread;
    const int tile = digit_of(rest, g.tiles);
    const int strip = digit_of(rest, g.strips);
    const int in_class = digit_of(rest, g.walk.classes);
    int depth_tile = cut.volumes ? digit_of(rest, g.depth_tiles) : 0;
    const int of_block = rest;
    unsigned unit = first_unit + rest;
    if (thread < g.items && unit < units) {
        walk_type t;
        if constexpr (!cut.volumes) depth_tile = digit_of(unit, g.depth_tiles);
        t.channel = digit_of(unit, p.channels);
        t.image = unit;
        t.in_class = in_class;
        t.all_weights = weights;
        t.others = others;
        if constexpr (!cut.row_by_row) t.load_weights(nullptr, 0);
        t.begin_at(tile * cut.columns, depth_tile * cut.depths);
        t.first_row = band + strip * cut.strip;
        t.last_row = least(least(t.first_row + cut.strip, band + g.rows),
                (p.row.written - in_class + g.walk.classes - 1)
                        / g.walk.classes);
        t.read_from = read;
        if constexpr (walk_type::staged_read)
            t.read = shared_read + before + of_block * g.read_elements;
        else
            t.read = read + t.image * p.read.image
                    + static_cast<long long>(t.channel) * p.multiplier
                            * p.read.channel;
        t.read += t.read_depth * g.read.from.depth + t.read_column;
        t.written = results + of_block * g.unit_elements
                + (in_class - band) * p.column.written + t.first_column;
        if constexpr (cut.volumes) t.written += t.first_depth * plane;
        if constexpr (cut.row_by_row)
            long_rows_of_thread<s>(
                    t, shared_weights + of_block * g.weights_pitch);
        else
            t.walk();
    }
    __syncthreads();
    write_from_shared<p>(written + first, results, count, cut.threads, others);
}

/// By the form that the specification says.
template <const kernel_specification &s>
__device__ void slide_data(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written,
        const fused_places &others) {
    wait_and_let_later_work_start();
    if constexpr (s.cut.row_by_row && s.cut.staged == staging::none)
        data_row_by_row<s>(read, weights, written, others);
    else if constexpr (s.cut.staged == staging::none)
        data_of_thread<s>(read, weights, written, others);
    else
        data_of_planes<s>(read, weights, written, others);
}

} // namespace gradnn::gpu::sliding
