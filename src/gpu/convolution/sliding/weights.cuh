// Convolution of few channels to a group, gradient of the weights (README.md has the formula). A
// thread walks along the rows of src and dst with the sums of all taps in
// registers. A block adds its threads' sums and writes a partial sum of each weight;
// weights_sum.cuh adds these in f64. No sum in f32 has more terms than the plan says, every
// order is fixed, and there are no atomics.
//
// A zero stands for what lies outside: a total that is not finite is taken again from the
// definition.
#pragma once

#include "gpu/convolution/sliding/rows.cuh"
#include "gpu/convolution/sliding/weights_geometry.hpp"

namespace gradnn::gpu::sliding {

/// By all threads of a block, the columns of a row from `first` on, zeros for those outside.
template <element of, int loaded, int threads>
__device__ __forceinline__ void copy_columns(stored_of<of> *to,
        const stored_of<of> *from, int columns, int first, int count) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) * loaded; i < count;
            i += threads * loaded)
        copy_async_or_zero<loaded * bytes_of(of)>(
                is_one_of(first + i, columns), to + i, from + first + i);
}

/// A thread's walk along the rows of src and dst.
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

    int channel, multiple, depth, in_class, tap_row;
    sum_type sums[multiples][p.depth.taps][g.row_taps][p.column.taps]
                 [cut.vector];
    loaded_rows<s, weights_geometry, &weights_geometry::src> src_rows;
    loaded_rows<s, weights_geometry, &weights_geometry::dst> dst_rows;
    sum_type kept[g.kept][cut.columns][multiples][own];
    const type *src, *dst;
    int end; ///< of the strip's steps

    __device__ int src_row(int step, int phase) const {
        return in_class + phase + p.row.base + g.src_step * (step + tap_row);
    }
    __device__ int dst_row(int step) const {
        return in_class + g.classes * step;
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
            return !checked || is_one_of(src_row(step, f), p.row.read);
        });
    }
    __device__ bool dst_is_inside(int step) const {
        return is_one_of(dst_row(step), p.row.written);
    }
    __device__ void load_next(int step, int slot, bool checked) {
        if (checked && step >= end) return;
        advance();
        load(step, slot, checked);
    }
    __device__ void advance() {
        src += g.src_step * p.read.row;
        dst += g.classes * p.written.row;
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
                    dst - age * g.classes * p.written.row,
                    [&](int) { return dst_is_inside(t - age); });
            keep(age - 1, 0);
        }
        walk_along(*this, t, last);
    }

    /// Long windows of one row: all threads of a block load some rows of a channel, the next ones
    /// while they work, and a thread adds the products of some columns of dst.
    __device__ void add_staged_rows(
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
                type *const to = staged
                        + (buffer * cut.staged_rows + r) * g.row_elements;
                copy_columns<p.type, g.src.loaded, cut.threads>(to,
                        of_src + image * p.read.image + depth * p.read.depth
                                + row * p.read.row,
                        exists ? p.column.read : 0, column + g.low,
                        g.src_columns);
                copy_columns<p.type, g.dst.loaded, cut.threads>(
                        to + g.src_columns,
                        of_dst + image * p.written.image
                                + depth * p.written.depth + row * p.written.row,
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
                                by[i / vector][i % vector],
                                sums[0][0][0][k][0]);
                });
            }
        }
        __syncthreads();
    }

    /// The strips of a part, by a thread at a place among those of its channel.
    __device__ __forceinline__ void add_strips(const type *all_src,
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
            const int column
                    = first_column_of(tile, cut.columns, g.column_step);
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
                            + depth * p.written.depth
                            + column * p.written.column,
                    column, first, end);
        }
    }

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
