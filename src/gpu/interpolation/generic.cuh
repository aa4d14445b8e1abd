// Everything: strides and sizes are arguments. A thread has a vector of inner elements of diff_src,
// or one element, at one place of the resampled axes, of some positions of the first outer axis,
// and reads all their taps: in the same order as the other forms, so in the same bits. Of long sums
// it has every n-th chunk of the rows' taps, a tap or 16 bytes of neighbouring ones, and adds up to
// 256 terms in the type of plain sums, these in f64 (f64 data: compensated). A block adds its
// threads' sums; the kernel runs once more and adds those of blocks that share an element.
#pragma once

#include <utility>

#include "gpu/device/long_sum.cuh"
#include "gpu/device/positions.cuh"
#include "gpu/interpolation/device.cuh"
#include "gpu/interpolation/generic.hpp"

namespace gradnn::gpu::resample {

/// What is of each axis, in the order of the sums: along `column` first, along `walk` last.
template <typename OfAxes>
void order_by_sums(const problem_specification &p, OfAxes &of) {
    if (!p.walk_first) return;
    std::swap(of.walk, of.column);
}

/// The elements of diff_src that a thread computes, or whose sums it shares.
template <jit::element type, int vector, int together, int chunk, work of>
struct sums_of_thread {
    static constexpr bool shared = of == work::shared;
    using stored = jit::stored_of<type>;
    using sum = jit::sum_of<type>;
    using total = long_sum<sum>;
    using sums = sum[together][vector];
    static constexpr int elements = vector * chunk;
    /// Of long sums rows of weights begin at multiples of 16 bytes.
    static constexpr int weights_at_once
            = shared && chunk > 1 ? 16 / static_cast<int>(sizeof(sum)) : 1;
    using some_weights
            = jit::elements<type == element::f64 ? element::f64 : element::f32,
                    weights_at_once>;
    /// The taps of a position, and where their weights are.
    struct taps {
        int first, count;
        int64_t weights;
    };

    const problem_specification &p;
    const tables<sum> &map;
    const bool ones;
    const stored *read; ///< the first tap
    stored *written;
    taps walk = {}, middle = {}, column = {};
    int last = 0; ///< outer position that exists
    int64_t outer[together]
            = {}; ///< elements to them; those beyond are read as the last
    sums some = {}, of_layer = {}, of_row = {};
    total all[shared ? together : 1][vector] = {}; ///< where threads share sums

    __device__ __forceinline__ static taps taps_of(
            const axis_table<sum> &table, const axis &along, int64_t position) {
        const place at = table.places[position];
        return {at.first, at.count,
                shared ? table.rows[position] : position * along.most_taps};
    }
    /// Of `left` outer positions, those that are read.
    __device__ __forceinline__ void find_outer(int left) {
        last = (left < together ? left : together) - 1;
#pragma unroll
        for (int o = 0; o < together; ++o)
            outer[o] = (o < left ? o : left - 1) * p.outer_read[0];
    }
    /// To a vector at a place of the resampled axes.
    __device__ __forceinline__ void find(int64_t unit, int64_t number) {
        // The columns are neighbours; their sums are the last where the walk comes first.
        const int64_t neighbour = take(
                number, p.walk_first ? p.walk.written : p.column.written);
        const int64_t at_middle = take(number, p.middle.written);
        const int64_t at_walk = p.walk_first ? neighbour : number;
        const int64_t at_column = p.walk_first ? number : neighbour;
        walk = taps_of(map.walk, p.walk, at_walk);
        middle = taps_of(map.middle, p.middle, at_middle);
        column = taps_of(map.column, p.column, at_column);
        read += unit * vector + walk.first * p.walk.read_pitch
                + middle.first * p.middle.read_pitch
                + column.first * p.column.read_pitch;
        written += unit * vector + at_walk * p.walk.write_pitch
                + at_middle * p.middle.write_pitch
                + at_column * p.column.write_pitch;
    }

    __device__ __forceinline__ auto loaded(auto unit, const stored *at) const {
        unit = unit.load(at);
        if constexpr (of == work::with_ops)
            if (p.prologue != fused_op::none)
                unit = computed<type>(p.prologue, unit,
                        unit.load(other_of(at, map.others.prologue)));
        return unit;
    }
    /// Of `count` chunks, `step` elements apart, the first `taps` of each. Loads of `at_once` chunks
    /// are on their way together; `whole`: by one load each, else element by element.
    template <int size, bool whole, int at_once>
    __device__ __forceinline__ void add_chunks(const stored *(&from)[together],
            const sum *&weights, int count, int64_t step, int weight_step,
            int taps = size) {
        constexpr int loads = whole ? 1 : size * vector;
        using unit = jit::elements<type, size * vector / loads>;
        const auto add_some = [&]<bool all_there>(int there) {
            unit values[at_once][together][loads];
#pragma unroll
            for (int k = 0; k < at_once && (all_there || k < there); ++k)
#pragma unroll
                for (int o = 0; o < together; ++o) {
#pragma unroll
                    for (int i = 0; i < loads; ++i)
                        if (whole || i < taps * vector)
                            values[k][o][i] = loaded(unit {}, from[o] + i);
                    from[o] += step;
                }
#pragma unroll
            for (int k = 0; k < at_once && (all_there || k < there); ++k) {
                some_weights factors[size / weights_at_once];
#pragma unroll
                for (int t = 0; t < size; t += weights_at_once)
                    if (!ones && (whole || t < taps))
                        factors[t / weights_at_once]
                                = some_weights::load(weights + t);
                weights += weight_step;
#pragma unroll
                for (int t = 0; t < size && (whole || t < taps); ++t) {
                    const sum weight = ones
                            ? sum(1)
                            : factors[t / weights_at_once][t % weights_at_once];
                    each_of(of_row, [&](int o, int v) {
                        const int e = t * vector + v;
                        of_row[o][v] = jit::multiply_add(weight,
                                values[k][o][whole ? 0 : e][whole ? e : 0],
                                of_row[o][v]);
                    });
                }
            }
        };
#pragma unroll 1
        for (; count >= at_once; count -= at_once)
            add_some.template operator()<true>(at_once);
        if (count > 0) add_some.template operator()<false>(count);
    }
    __device__ __forceinline__ static void add_and_clear(
            sums &to, sum weight, sums &from) {
        add_weighted(to, weight, from);
        each_of(from, [&](int o, int v) { from[o][v] = 0; });
    }
    /// To a row of all outer positions that a thread has at once.
    __device__ __forceinline__ void find_rows(
            const stored *(&from)[together], const stored *row) const {
#pragma unroll
        for (int o = 0; o < together; ++o)
            from[o] = row + outer[o];
    }

    /// All taps, in order.
    __device__ __forceinline__ void add_all() {
        const int64_t pitch = p.column.read_pitch;
        const stored *layer = read;
#pragma unroll 1
        for (int i = 0; i < walk.count; ++i, layer += p.walk.read_pitch) {
            const stored *row = layer;
#pragma unroll 1
            for (int j = 0; j < middle.count; ++j, row += p.middle.read_pitch) {
                const stored *from[together];
                find_rows(from, row);
                const sum *weights = map.column.weights + column.weights;
                add_chunks<1, true, elements == 1 && together == 1 ? 4 : 2>(
                        from, weights, column.count, pitch, 1);
                add_and_clear(of_layer, map.middle.weights[middle.weights + j],
                        of_row);
            }
            add_and_clear(some, map.walk.weights[walk.weights + i], of_layer);
        }
    }

    __device__ __forceinline__ void end_row(int64_t i, int64_t j) {
        const sum weight = map.middle.weights[middle.weights + j]
                * map.walk.weights[walk.weights + i];
        each_of(of_row, [&](int o, int v) {
            all[o][v].add(weight * of_row[o][v]);
            of_row[o][v] = 0;
        });
    }
    /// What one of `threads` takes: of each row every n-th chunk. A sum ends with 32 of them.
    __device__ __forceinline__ void add(int thread, int threads) {
        constexpr int longest = 32, most = together == 1 ? 4 : 2 - (chunk > 1);
        constexpr int narrow = elements == 1 ? most : elements < 8 ? 2 : 1;
        const int64_t rows = int64_t {walk.count} * middle.count;
        if (rows == 0) return;
        int at_once = 1; // chunks of a row
        while (at_once < threads
                && (rows * at_once < threads
                        || (at_once < 32
                                && 4 * at_once * chunk <= column.count)))
            at_once *= 2;
        const int mine = thread % at_once;
        const int chunks = column.count / chunk, left = column.count % chunk;
        const int64_t pitch = chunk * p.column.read_pitch;
        int64_t i = thread / at_once;
        int64_t j = take(i, int64_t {middle.count});
        while (i < walk.count) {
            const stored *row
                    = read + i * p.walk.read_pitch + j * p.middle.read_pitch;
            const bool aligned = elements > 1
                    && reinterpret_cast<uintptr_t>(row) % 16 == 0;
            const stored *from[together];
            find_rows(from, row + mine * pitch);
            const sum *weights
                    = map.column.weights + column.weights + mine * chunk;
            int count = (chunks - mine + at_once - 1) / at_once;
            while (count > 0) {
                const int some_of = count < longest ? count : longest;
                if (aligned)
                    add_chunks<chunk, (elements > 1), most>(from, weights,
                            some_of, at_once * pitch, at_once * chunk);
                else
                    add_chunks<chunk, false, narrow>(from, weights, some_of,
                            at_once * pitch, at_once * chunk);
                count -= some_of;
                if (count > 0 || left > 0) end_row(i, j);
            }
            if (left > 0 && chunks % at_once == mine)
                add_chunks<chunk, false, 1>(from, weights, 1, 0, 0, left);
            end_row(i, j);
            j += threads / at_once;
            i += j / middle.count;
            j %= middle.count;
        }
    }
    /// To the first of `lanes` threads, `side` apart, the sums of the others.
    __device__ __forceinline__ void gather(
            total *of_block, int lane, int lanes, int side) {
        total *const mine = of_block + threadIdx.x;
        for (int half = lanes / 2; half > 0; half /= 2) {
            each_of(all, [&](int o, int v) {
                mine[(o * vector + v) * generic_threads] = all[o][v];
            });
            __syncthreads();
            if (lane < half)
                each_of(all, [&](int o, int v) {
                    all[o][v].add(mine[(o * vector + v) * generic_threads
                            + half * side]);
                });
            __syncthreads();
        }
    }
    __device__ __forceinline__ void write() const {
        // Those of long sums are few, and may lie anywhere.
        constexpr int once = shared ? 1 : vector;
        stored *to = written;
#pragma unroll
        for (int o = 0; o < together; ++o, to += p.outer_write[0]) {
            if (o > last) return;
#pragma unroll
            for (int v = 0; v < vector; v += once) {
                sum values[once];
#pragma unroll
                for (int e = 0; e < once; ++e)
                    values[e] = shared
                            ? static_cast<sum>(all[shared ? o : 0][v].value())
                            : some[o][v + e];
                auto value = finished<type, once>(values);
                if constexpr (of == work::with_ops)
                    value = jit::with_epilogue(p, value, to + v, map.others);
                value.store(to + v);
            }
        }
    }
};

/// Elements; of long sums that blocks share, parts to `sums` or, if it `adds_parts`, from these.
template <jit::element type, int vector, int together, int chunk, work what>
__global__ void __launch_bounds__(
        generic_threads, what == work::shared && together == 1 ? 6 : 4)
        resample_any_kernel(const jit::stored_of<type> *read,
                jit::stored_of<type> *written,
                const __grid_constant__ tables<jit::sum_of<type>> map,
                const __grid_constant__ problem_specification p,
                const __grid_constant__ sharing h,
                long_sum<jit::sum_of<type>> *sums, bool adds_parts) {
    wait_and_let_later_work_start();
    using thread_sums = sums_of_thread<type, vector, together, chunk, what>;
    constexpr bool shared = thread_sums::shared;
    const int side = shared ? h.side : 1;
    const int lanes = shared ? h.lanes : 1;
    const int parts = shared && !adds_parts ? h.parts : 1;
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread / side % lanes;
    const int of_block = static_cast<int>(blockDim.x) / (side * lanes);
    const int part = static_cast<int>(blockIdx.x) % parts;
    const int64_t step = int64_t {gridDim.x} / parts * of_block;
    for (int64_t first = int64_t {blockIdx.x} / parts * of_block;
            first < h.groups; first += step) {
        const int64_t group = first + thread / (side * lanes);
        int64_t rest = group;
        const int64_t unit = take(rest, h.sides) * side + thread % side;
        const int64_t place = take(rest, h.places);
        const int64_t begin = take(rest, h.outer_parts) * h.outers;
        const bool exists = group < h.groups && unit < p.inner / vector;
        int left = static_cast<int>(p.outer[0] - begin);
        if (left > h.outers) left = h.outers;
        thread_sums mine {p, map, shared && h.ones,
                read + begin * p.outer_read[0],
                written + begin * p.outer_write[0]};
#pragma unroll
        for (int i = 1; i < most_outer; ++i) {
            const int64_t at = take(rest, p.outer[i]);
            mine.read += at * p.outer_read[i];
            mine.written += at * p.outer_write[i];
        }
        if (exists) mine.find(unit, place);
        if constexpr (shared) {
            mine.find_outer(left);
            const auto kept = [&](int of_part, int o, int v) -> auto & {
                const int64_t of_thread
                        = (of_part * h.groups + group) * side + thread % side;
                return sums[(of_thread * together + o) * vector + v];
            };
            if (exists && adds_parts)
                for (int i = lane; i < h.parts; i += lanes)
                    each_of(mine.all, [&](int o, int v) {
                        mine.all[o][v].add(kept(i, o, v));
                    });
            else if (exists)
                mine.add(part * lanes + lane, parts * lanes);
            mine.gather(reinterpret_cast<typename thread_sums::total *>(
                                jit::dynamic_shared()),
                    lane, lanes, side);
            if (lane != 0 || !exists) continue;
            if (parts == 1)
                mine.write();
            else
                each_of(mine.all, [&](int o, int v) {
                    kept(part, o, v) = mine.all[o][v];
                });
        } else if (exists) {
            mine.find_outer(together);
            for (; left > 0; left -= together) {
                if (left < together) mine.find_outer(left);
                mine.add_all();
                mine.write();
                each_of(mine.some, [&](int o, int v) { mine.some[o][v] = 0; });
                mine.read += together * p.outer_read[0];
                mine.written += together * p.outer_write[0];
            }
        }
    }
}

} // namespace gradnn::gpu::resample
