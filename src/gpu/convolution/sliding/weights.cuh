// Convolution of few channels to a group, gradient of the weights (README.md has the formula). A
// thread walks along the rows of src and dst (weights_walk.cuh) with the sums of all taps in
// registers. A block adds its threads' sums and writes a partial sum of each weight;
// weights_sum.cuh adds these in f64. No sum in f32 has more terms than the plan says, every
// order is fixed, and there are no atomics.
//
// A zero stands for what lies outside: a total that is not finite is taken again from the
// definition.
#pragma once

#include "gpu/convolution/sliding/weights_walk.cuh"

namespace gradnn::gpu::sliding {

/// By all threads of a block, the columns of a row from `first` on, zeros for those outside.
template <element of, int loaded, int threads>
__device__ __forceinline__ void copy_columns(stored_of<of> *to,
        const stored_of<of> *from, int columns, int first, int count) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) * loaded; i < count;
            i += threads * loaded)
        copy_async_or_zero<loaded * bytes_of(of)>(
                static_cast<unsigned>(first + i)
                        < static_cast<unsigned>(columns),
                to + i, from + first + i);
}

/// Long windows of one row: all threads of a block load some rows of a channel, the next ones
/// while they work, and a thread adds the products of some columns of dst.
template <const kernel_specification &s>
__device__ void weights_walk<s>::add_staged_rows(
        const type *all_src, const type *all_dst, int part) {
    constexpr int vector = 16 / bytes_of(p.type);
    using vector_type = elements<p.type, vector>;
    const int thread = static_cast<int>(threadIdx.x);
    type *const staged = reinterpret_cast<type *>(dynamic_shared());
    const type *const of_src = all_src + channel * p.read.channel;
    const type *const of_dst = all_dst + channel * p.written.channel;

    const auto submit = [&](int group, int buffer) {
#pragma unroll 1
        for (int r = 0; r < cut.staged_rows; ++r) {
            const int item = group * cut.staged_rows + r;
            int rest = item;
            const int column = digit_of(rest, g.tiles) * cut.piece;
            const int row = digit_of(rest, p.row.written);
            const int depth = rest % p.depth.written;
            const int image = rest / p.depth.written;
            const bool exists = item < g.items;
            type *const to
                    = staged + (buffer * cut.staged_rows + r) * g.row_elements;
            copy_columns<p.type, g.src.loaded, cut.threads>(to,
                    of_src + image * p.read.image + depth * p.read.depth
                            + row * p.read.row,
                    exists ? p.column.read : 0, column + g.low, g.src_columns);
            copy_columns<p.type, g.dst.loaded, cut.threads>(to + g.src_columns,
                    of_dst + image * p.written.image + depth * p.written.depth
                            + row * p.written.row,
                    exists ? p.column.written : 0, column, cut.piece);
        }
        commit_copies();
    };
    const int first = part * cut.rounds;
    const int end = least(first + cut.rounds, g.groups);
    constexpr int tiles = cut.piece / cut.columns;
    const int row = thread / tiles;
    const type *const own
            = staged + row * g.row_elements + thread % tiles * cut.columns;
    if (first < end) submit(first, 0);
    int buffer = 0;
#pragma unroll 1
    for (int group = first; group < end; ++group, buffer ^= 1) {
        wait_for_copies<0>();
        __syncthreads();
        if (group + 1 < end) submit(group + 1, buffer ^ 1);
        if (row >= cut.staged_rows) continue;
        const type *const from
                = own + buffer * cut.staged_rows * g.row_elements;
        vector_type by[cut.columns / vector];
        for_each<cut.columns / vector>([&](int i) {
            by[i] = vector_type::load(from + g.src_columns + i * vector);
        });
        constexpr int count = g.past + cut.columns + p.column.taps - 1;
#pragma unroll
        for (int at = 0; at < count; at += vector) {
            const auto some = vector_type::load(from + at);
            for_each<vector, cut.columns>([&](int e, int i) {
                const int k = at + e - g.past - i;
                if (k >= 0 && k < p.column.taps)
                    sums[0][0][0][k][0] = multiply_add(some[e],
                            by[i / vector][i % vector], sums[0][0][0][k][0]);
            });
        }
    }
    __syncthreads();
}

/// The strips of a part, by a thread at a place among those of its channel.
template <const kernel_specification &s>
__device__ __forceinline__ void weights_walk<s>::add_strips(const type *all_src,
        const type *all_dst, unsigned slot, unsigned part) {
    if constexpr (g.copied) {
        constexpr int rows = (cut.ahead + 1) * cut.unroll;
        src_rows.copies = {dynamic_shared(), rows};
        dst_rows.copies = {dynamic_shared() + g.dst_at, rows};
    }
    const unsigned last_round
            = least((part + 1) * cut.rounds, static_cast<int>(g.groups));
#pragma unroll 1
    for (unsigned round = part * cut.rounds; round < last_round; ++round) {
        unsigned rest = round * g.of_block + slot;
        if (slot >= g.of_block || rest >= g.items || channel >= p.channels)
            continue;
        const int tile = digit_of(rest, g.tiles);
        in_class = digit_of(rest, g.classes);
        const int strip = digit_of(rest, g.strips);
        depth = rest % p.depth.written;
        const int image = rest / p.depth.written;
        const int column = first_column_of(tile, cut.columns, g.column_step);
        const int first = g.first_step + strip * cut.strip;
        const int end = least(first + cut.strip, g.end_step);
        if (first >= end) continue;
        walk(all_src + image * p.read.image + channel * p.read.channel
                        + static_cast<long long>(depth) * p.depth.step
                                * p.read.depth
                        + static_cast<long long>(column) * p.column.step
                                * p.read.column,
                all_dst + image * p.written.image
                        + (static_cast<long long>(channel / p.group)
                                          * p.multiplier
                                  + multiple)
                                * p.written.channel
                        + depth * p.written.depth + column * p.written.column,
                column, first, end);
    }
}

/// Writes partial sums [part][number], numbers counting the channels of dst, then the
/// window along W, H and D.
template <const kernel_specification &s>
__device__ void slide_weights(const stored_of<s.of.type> *src,
        const stored_of<s.of.type> *dst, sum_of<s.of.type> *partials) {
    using sum_type = sum_of<s.of.type>;
    constexpr problem_specification p = s.of;
    constexpr work_cut cut = s.cut;
    constexpr const weights_geometry &g = geometry_for<s, weights_geometry>::g;
    wait_and_let_later_work_start();
    weights_walk<s> t;
    const unsigned thread = threadIdx.x;
    const unsigned channel_block = blockIdx.x % g.channel_blocks;
    unsigned part = blockIdx.x / g.channel_blocks;
    t.tap_row = 0;
    if constexpr (cut.row_taps > 0) {
        t.tap_row = part % g.tap_blocks * cut.row_taps;
        part /= g.tap_blocks;
    }
    // The place of a thread among those of its channels, and these.
    const unsigned lane = thread / cut.run % cut.lanes;
    const unsigned slot
            = thread % cut.run + thread / (cut.run * cut.lanes) * cut.run;
    const unsigned lane_of_all = channel_block * cut.lanes + lane;
    t.channel = lane_of_all / t.multiple_blocks * cut.vector;
    t.multiple = lane_of_all % t.multiple_blocks * t.multiples;
    t.for_each_sum([](sum_type &sum_of, int) { sum_of = 0; });
    if constexpr (cut.staged_rows > 0)
        t.add_staged_rows(src, dst, static_cast<int>(part));
    else
        t.add_strips(src, dst, slot, part);
    // The block's sums, so many of each thread at a time.
    constexpr int at_once = most(
            1, least(g.sums, 24000 / (cut.threads * sum_bytes_of(p.type))));
    __shared__ sum_type shared[at_once * cut.threads];
    sum_type *const to = partials
            + static_cast<long long>(part)
                    * (p.depth.taps * p.row.taps * p.column.taps)
                    * (p.channels * p.multiplier);
#pragma unroll
    for (int chunk = 0; chunk < g.sums; chunk += at_once) {
        if (chunk) __syncthreads();
        t.for_each_sum([&](sum_type &sum_of, int i) {
            if (i >= chunk && i < chunk + at_once)
                shared[(i - chunk) * cut.threads + thread] = sum_of;
        });
        __syncthreads();
        for (int q = thread; q < least(at_once, g.sums - chunk) * cut.lanes;
                q += cut.threads) {
            const int of_lane = q % cut.lanes;
            const sum_type *const from = shared + q / cut.lanes * cut.threads;
            sum_type total = 0;
#pragma unroll 8
            for (int j = 0; j < g.of_block; ++j)
                total += from[(j / cut.run * cut.lanes + of_lane) * cut.run
                        + j % cut.run];
            int rest = q / cut.lanes + chunk;
            const int v = digit_of(rest, cut.vector);
            const int kw = digit_of(rest, p.column.taps);
            const int kh = digit_of(rest, g.row_taps);
            const int kd = digit_of(rest, p.depth.taps);
            const int of_all = channel_block * cut.lanes + of_lane;
            const int of_channel = of_all / t.multiple_blocks * cut.vector + v;
            const int m = of_all % t.multiple_blocks * t.multiples + rest;
            if (of_channel < p.channels && kh + t.tap_row < p.row.taps)
                to[t.number_of(m, kd, kh, kw, of_channel)] = total;
        }
    }
}

} // namespace gradnn::gpu::sliding
