// Depthwise convolution, gradient of the weights:
//
//   diff_weights[c,m,k] = sum over n and x of dst[n,c*multiplier+m,x]
//                                             * src[n,c,x*stride-pad+k*dilation]
//
// A thread has a tile of columns of dst (in NXC of a vector of channels) and walks along the
// rows of src. It keeps the last rows of dst, so that each row of either is loaded once, some
// rows ahead, and adds the products of all taps to sums in registers. A block adds its
// threads' sums and writes a partial sum of each weight; add_parts adds these in f64. No sum
// in f32 has more terms than the plan says, every order is fixed, and there are no atomics.
//
// A zero stands for what lies outside: a total that is not finite is taken again from the
// definition.
#pragma once

#include "gpu/convolution/sliding/device.cuh"
#include "gpu/convolution/sliding/weights_specification.hpp"

namespace gradnn::gpu::sliding {

template <weights_specification s>
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
    jit::elements<p.type, g.src_loaded> src_rows[cut.ahead][g.phases]
                                                [p.depth.taps][g.src_pieces]
                                                [g.src.count];
    jit::elements<p.type, g.dst_loaded> dst_rows[cut.ahead][g.dst_pieces]
                                                [g.dst.count];
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
    __device__ void load_dst(int slot, const type *at, bool inside) {
#pragma unroll
        for (int m = 0; m < g.dst_pieces; ++m)
#pragma unroll
            for (int unit = 0; unit < g.dst.count; ++unit)
                if (g.dst.used[unit])
                    load_into(dst_rows[slot][m][unit],
                            at + m * (nxc ? g.dst_loaded : p.written.channel)
                                    + unit * g.dst.vector * p.written.column,
                            inside && dst_inside[unit]);
    }
    __device__ void load(int step, int slot, bool checked) {
        load_dst(slot, dst,
                !checked
                        || static_cast<unsigned>(dst_row(step))
                                < static_cast<unsigned>(p.row.written));
#pragma unroll
        for (int f = 0; f < g.phases; ++f) {
            if (!g.phase_used[f]) continue;
            const bool inside = !checked
                    || static_cast<unsigned>(src_row(step, f))
                            < static_cast<unsigned>(p.row.read);
#pragma unroll
            for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
                for (int m = 0; m < g.src_pieces; ++m)
#pragma unroll
                    for (int unit = 0; unit < g.src.count; ++unit)
                        if (g.src.used[unit])
                            load_into(src_rows[slot][f][kd][m][unit],
                                    src + f * p.read.row
                                            + p.depth.met(0, kd) * p.read.depth
                                            + m * g.src_loaded
                                            + (unit + g.src.first)
                                                    * g.src.vector
                                                    * p.read.column,
                                    inside && depth_inside[kd]
                                            && src_inside[unit]);
        }
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
#pragma unroll
        for (int j = 0; j < cut.columns; ++j)
#pragma unroll
            for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
                for (int v = 0; v < cut.vector; ++v)
                    kept[age][j][m][v]
                            = dst_used(j) ? dst_element(slot, j, m, v) : 0;
    }

    __device__ void step(int t, int slot, int end, bool checked) {
#pragma unroll
        for (int age = g.kept - 1; age > 0; --age)
#pragma unroll
            for (int j = 0; j < cut.columns; ++j)
#pragma unroll
                for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        kept[age][j][m][v] = kept[age - 1][j][m][v];
        keep(0, slot);
        constexpr int width = g.src.count * g.src.vector;
        sum_type values[g.phases][p.depth.taps][width][cut.vector];
#pragma unroll
        for (int f = 0; f < g.phases; ++f)
#pragma unroll
            for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
                for (int x = 0; x < width; ++x)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        if (g.phase_used[f] && g.src.used[x / g.src.vector])
                            values[f][kd][x][v] = nxc
                                    ? src_rows[slot][f][kd][v / g.src_loaded][x]
                                              [v % g.src_loaded]
                                    : src_rows[slot][f][kd][0][x / g.src.vector]
                                              [x % g.src.vector];
        if (checked) {
#pragma unroll
            for (int i = 0; i + 1 < cut.ahead; ++i) {
#pragma unroll
                for (int f = 0; f < g.phases; ++f)
#pragma unroll
                    for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
                        for (int m = 0; m < g.src_pieces; ++m)
#pragma unroll
                            for (int unit = 0; unit < g.src.count; ++unit)
                                src_rows[i][f][kd][m][unit]
                                        = src_rows[i + 1][f][kd][m][unit];
#pragma unroll
                for (int m = 0; m < g.dst_pieces; ++m)
#pragma unroll
                    for (int unit = 0; unit < g.dst.count; ++unit)
                        dst_rows[i][m][unit] = dst_rows[i + 1][m][unit];
            }
            if (t + cut.ahead < end) {
                advance();
                load(t + cut.ahead, cut.ahead - 1, true);
            }
        } else {
            advance();
            load(0, slot, false);
        }
#pragma unroll
        for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
            for (int kh = 0; kh < g.row_taps; ++kh)
#pragma unroll
                for (int j = 0; j < cut.columns; ++j) {
                    if (!dst_used(j)) continue;
#pragma unroll
                    for (int kw = 0; kw < p.column.taps; ++kw) {
                        const int x = g.src.met[kw][j];
                        if (x < 0) continue;
#pragma unroll
                        for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
                            for (int v = 0; v < cut.vector; ++v)
                                sums[m][kd][kh][kw][v] = multiply_add(
                                        values[g.phase_of[kh]][kd][x][v],
                                        kept[g.age_of[kh]][j][m][v],
                                        sums[m][kd][kh][kw][v]);
                    }
                }
    }

    /// The strip of a tile, whose first column src and dst are given for, at row 0.
    __device__ void walk(const type *src_at, const type *dst_at, int column,
            int t, int end) {
#pragma unroll
        for (int unit = 0; unit < g.src.count; ++unit)
            src_inside[unit] = g.src.always_inside[unit]
                    || static_cast<unsigned>(column * p.column.step
                               + (unit + g.src.first) * g.src.vector)
                            < static_cast<unsigned>(p.column.read);
#pragma unroll
        for (int unit = 0; unit < g.dst.count; ++unit)
            dst_inside[unit] = g.dst.always_inside[unit]
                    || static_cast<unsigned>(column + unit * g.dst.vector)
                            < static_cast<unsigned>(p.column.written);
#pragma unroll
        for (int kd = 0; kd < p.depth.taps; ++kd)
            depth_inside[kd] = static_cast<unsigned>(p.depth.met(0, kd)
                                       + depth * p.depth.step)
                    < static_cast<unsigned>(p.depth.read);
        src = src_at + static_cast<long long>(src_row(t, 0)) * p.read.row;
        dst = dst_at + static_cast<long long>(dst_row(t)) * p.written.row;
#pragma unroll
        for (int age = 1; age < g.kept; ++age) {
            load_dst(0, dst - age * dst_step * p.written.row,
                    static_cast<unsigned>(dst_row(t - age))
                            < static_cast<unsigned>(p.row.written));
            keep(age - 1, 0);
        }
#pragma unroll
        for (int i = 0; i < cut.ahead; ++i)
            if (i == 0 || t + i < end) {
                if (i) advance();
                load(t + i, i, true);
            }
        constexpr int last = cut.unroll + cut.ahead - 1;
#pragma unroll 1
        for (;;) {
            if (cut.unchecked && t + last < end
                    && src_row(t + cut.ahead, 0) >= 0
                    && src_row(t + last, g.phases - 1) < p.row.read
                    && dst_row(t + last) < p.row.written) {
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

    /// Of the weights that a thread has sums of, the number of one.
    __device__ int number_of(int m, int kd, int kh, int kw, int channel) const {
        return ((kd * p.row.taps + kh + tap_row) * p.column.taps + kw)
                * (p.channels * p.multiplier)
                + channel * p.multiplier + m;
    }
};

/// Writes partial sums [part][number], numbers counting the channels of dst, then the
/// window along W, H and D.
template <weights_specification s>
__device__ void slide_weights(const storage<s.of.type> *src,
        const storage<s.of.type> *dst, sum<s.of.type> *partials) {
    using walk_type = weights_walk<s>;
    using sum_type = sum<s.of.type>;
    constexpr problem_specification p = s.of;
    constexpr weights_cut cut = s.cut;
    constexpr weights_geometry g = walk_type::g;
    wait_and_let_later_work_start();
    walk_type t;
    const unsigned thread = threadIdx.x;
    const unsigned channel_block = blockIdx.x % g.channel_blocks;
    unsigned part = blockIdx.x / g.channel_blocks;
    t.tap_row = 0;
    if constexpr (cut.row_of_taps) {
        t.tap_row = part % p.row.taps;
        part /= p.row.taps;
    }
    // The place of a thread among those of its channels, and these.
    unsigned lane = 0, slot = thread;
    int channel = channel_block;
    constexpr int lanes = p.channels_last ? cut.lanes
            : cut.channels                ? cut.channels
                                          : 1;
    if constexpr (p.channels_last) {
        lane = thread % cut.lanes;
        slot = thread / cut.lanes;
        channel = (channel_block * cut.lanes + lane) * cut.vector;
    } else if constexpr (cut.channels > 0) {
        lane = thread / g.slots % cut.channels;
        slot = thread % g.slots + thread / (g.slots * cut.channels) * g.slots;
        channel = channel_block * cut.channels + lane;
    }
#pragma unroll
    for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
        for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
            for (int kh = 0; kh < g.row_taps; ++kh)
#pragma unroll
                for (int kw = 0; kw < p.column.taps; ++kw)
#pragma unroll
                    for (int v = 0; v < cut.vector; ++v)
                        t.sums[m][kd][kh][kw][v] = 0;
    const unsigned last_round
            = least((part + 1) * cut.rounds, static_cast<int>(g.groups));
#pragma unroll 1
    for (unsigned round = part * cut.rounds; round < last_round; ++round) {
        unsigned rest = round * g.of_block + slot;
        if (slot >= g.of_block || rest >= g.items || channel >= p.channels)
            continue;
        const int tile = rest % g.tiles;
        rest /= g.tiles;
        t.in_class = rest % g.classes;
        rest /= g.classes;
        const int strip = rest % g.strips;
        rest /= g.strips;
        t.depth = rest % p.depth.written;
        const int image = rest / p.depth.written;
        const int column = g.column_step > 1 ? tile % g.column_step
                        + tile / g.column_step * (g.column_step * cut.columns)
                                             : tile * cut.columns;
        const int first = g.first_step + strip * cut.strip;
        const int end = least(first + cut.strip, g.end_step);
        if (first >= end) continue;
        t.walk(src + image * p.read.image + channel * p.read.channel
                        + static_cast<long long>(t.depth) * p.depth.step
                                * p.read.depth
                        + static_cast<long long>(column) * p.column.step
                                * p.read.column,
                dst + image * p.written.image
                        + static_cast<long long>(channel) * p.multiplier
                                * p.written.channel
                        + t.depth * p.written.depth + column * p.written.column,
                column, first, end);
    }
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
        int i = 0;
#pragma unroll
        for (int m = 0; m < p.multiplier; ++m)
#pragma unroll
            for (int kd = 0; kd < p.depth.taps; ++kd)
#pragma unroll
                for (int kh = 0; kh < g.row_taps; ++kh)
#pragma unroll
                    for (int kw = 0; kw < p.column.taps; ++kw)
#pragma unroll
                        for (int v = 0; v < cut.vector; ++v, ++i)
                            if (i >= chunk && i < chunk + at_once)
                                shared[(i - chunk) * cut.threads + thread]
                                        = t.sums[m][kd][kh][kw][v];
        __syncthreads();
        for (int q = thread; q < least(at_once, g.sums - chunk) * lanes;
                q += cut.threads) {
            const int of_lane = q % lanes;
            const int number = q / lanes + chunk;
            const sum_type *const from = shared + q / lanes * cut.threads;
            sum_type total = 0;
#pragma unroll 8
            for (int j = 0; j < g.of_block; ++j)
                total += from[p.channels_last ? j * lanes + of_lane
                                : cut.channels
                                ? (j / g.slots * lanes + of_lane) * g.slots
                                        + j % g.slots
                                : j];
            const int v = number % cut.vector;
            const int kw = number / cut.vector % p.column.taps;
            const int kh = number / (cut.vector * p.column.taps) % g.row_taps;
            const int kd = number / (cut.vector * p.column.taps * g.row_taps)
                    % p.depth.taps;
            const int m = number
                    / (cut.vector * p.column.taps * g.row_taps * p.depth.taps);
            const int of_channel
                    = (channel_block * lanes + of_lane) * cut.vector + v;
            if (of_channel < p.channels)
                to[t.number_of(m, kd, kh, kw, of_channel)] = total;
        }
    }
}

} // namespace gradnn::gpu::sliding
