// Everything: a thread has a vector of inner elements of diff_src, or one element, at one place
// of the resampled axes, of some positions of the first outer axis, and reads all their taps;
// strides and sizes are arguments. In the same order as the other forms, so in the same bits.
#pragma once

#include "gpu/device/positions.cuh"
#include "gpu/interpolation/resample/device.cuh"

namespace gradnn::gpu::resample {

/// The axes in the order of the sums: along `column` first, along `walk` last.
template <typename Sum>
void order_by_sums(problem_specification &p, tables<Sum> &map) {
    if (!p.walk_first) return;
    const auto rotate = [](auto &walk, auto &middle, auto &column) {
        const auto first = walk;
        walk = middle;
        middle = column;
        column = first;
    };
    rotate(p.walk, p.middle, p.column);
    rotate(map.walk, map.middle, map.column);
}

/// The elements of diff_src that a thread computes. Outer positions side by side share a look
/// at the taps.
template <jit::element type, int vector>
struct elements_of_thread {
    using stored = jit::stored_of<type>;
    using sum = jit::sum_of<type>;
    using unit = jit::elements<type, vector>;
    /// The taps of a position, and where their weights are.
    struct taps {
        int first, count, weights;
    };

    const problem_specification &p;
    const tables<sum> &map;
    const stored *read; ///< the first tap
    stored *written;
    taps walk, middle, column;

    __device__ __forceinline__ static taps taps_of(
            const axis_table<sum> &table, const axis &along, int64_t position) {
        const place at = table.places[position];
        return {at.first, at.count,
                static_cast<int>(position) * along.most_taps};
    }

    /// `number` of the vectors of an outer position.
    __device__ __forceinline__ void find(int64_t number) {
        const int64_t inner = take(number, p.inner / vector) * vector;
        // The columns are neighbours; they are in the middle where the walk comes first.
        int64_t at_middle = p.walk_first ? take(number, p.middle.written) : 0;
        const int64_t at_column = take(number, p.column.written);
        if (!p.walk_first) at_middle = take(number, p.middle.written);
        walk = taps_of(map.walk, p.walk, number);
        middle = taps_of(map.middle, p.middle, at_middle);
        column = taps_of(map.column, p.column, at_column);
        read += inner + walk.first * p.walk.read_pitch
                + middle.first * p.middle.read_pitch
                + column.first * p.column.read_pitch;
        written += inner + number * p.walk.write_pitch
                + at_middle * p.middle.write_pitch
                + at_column * p.column.write_pitch;
    }

    template <bool computes, int count>
    __device__ __forceinline__ jit::elements<type, count> value_at(
            const stored *at) const {
        using several = jit::elements<type, count>;
        const several value = several::load(at);
        if constexpr (computes)
            if (p.prologue != fused_op::none)
                return computed<type>(p.prologue, value,
                        several::load(other_of(at, map.others.prologue)));
        return value;
    }
    /// The taps of a row; where they are many and side by side, 16 bytes of them at once.
    template <bool computes, int outers>
    __device__ __forceinline__ void add_columns(
            sum (&to)[outers][vector], const stored *tap) const {
        const sum *weight = map.column.weights + column.weights;
        int left = column.count;
        const auto add = [&]<int wide>(int count) {
            left -= count;
#pragma unroll 2
            for (int k = 0; k < count; k += wide, weight += wide,
                     tap += wide * p.column.read_pitch) {
                jit::elements<type, wide * vector> values[outers];
#pragma unroll
                for (int o = 0; o < outers; ++o)
                    values[o] = value_at<computes, wide * vector>(
                            tap + o * p.outer_read[0]);
#pragma unroll
                for (int w = 0; w < wide; ++w)
                    each_of(to, [&](int o, int v) {
                        to[o][v] = jit::multiply_add(
                                weight[w], values[o][w * vector + v], to[o][v]);
                    });
            }
        };
        if constexpr (vector == 1) {
            constexpr int wide = 16 / static_cast<int>(sizeof(stored));
            const int past = static_cast<int>(
                    reinterpret_cast<uintptr_t>(tap) / sizeof(stored) % wide);
            if (left >= 2 * wide && p.column.read_pitch == 1
                    && p.outer_read[0] % wide == 0
                    && map.others.prologue % 16 == 0) {
                add.template operator()<1>(past > 0 ? wide - past : 0);
                add.template operator()<wide>(left / wide * wide);
            }
        }
        add.template operator()<1>(left);
    }
    /// Of so many positions of the first outer axis, and goes on to the next ones.
    template <bool computes, int outers>
    __device__ __forceinline__ void write() {
        sum all[outers][vector] = {};
        const stored *layer = read;
#pragma unroll 1
        for (int i = 0; i < walk.count; ++i, layer += p.walk.read_pitch) {
            sum of_layer[outers][vector] = {};
            const stored *row = layer;
#pragma unroll 1
            for (int j = 0; j < middle.count; ++j, row += p.middle.read_pitch) {
                sum of_row[outers][vector] = {};
                add_columns<computes>(of_row, row);
                add_weighted(of_layer, map.middle.weights[middle.weights + j],
                        of_row);
            }
            add_weighted(all, map.walk.weights[walk.weights + i], of_layer);
        }
#pragma unroll
        for (int o = 0; o < outers; ++o) {
            unit value = finished<type, vector>(all[o]);
            if constexpr (computes)
                value = jit::with_epilogue(p, value, written, map.others);
            value.store(written);
            read += p.outer_read[0];
            written += p.outer_write[0];
        }
    }
};

/// With `share` positions of the first outer axis a thread.
template <jit::element type, int vector>
__device__ void resample_any(const jit::stored_of<type> *read,
        jit::stored_of<type> *written, const tables<jit::sum_of<type>> &map,
        const problem_specification &p, int share) {
    constexpr int together = vector == 1 ? 4 : vector <= 4 ? 2 : 1;
    const int64_t places = int64_t {p.inner / vector} * p.walk.written
            * p.middle.written * p.column.written;
    const int parts = (p.outer[0] + share - 1) / share;
    const int64_t items = places * parts * p.outer[1] * p.outer[2] * p.outer[3];
    for (int64_t item = int64_t {blockIdx.x} * blockDim.x + threadIdx.x;
            item < items; item += int64_t {gridDim.x} * blockDim.x) {
        int64_t rest = item;
        const int64_t number = take(rest, places);
        const int64_t begin = take(rest, parts) * share;
        elements_of_thread<type, vector> of {p, map,
                read + begin * p.outer_read[0],
                written + begin * p.outer_write[0]};
#pragma unroll
        for (int i = 1; i < most_outer; ++i) {
            const int64_t at = take(rest, p.outer[i]);
            of.read += at * p.outer_read[i];
            of.written += at * p.outer_write[i];
        }
        of.find(number);
        const auto write_all = [&]<bool computes>() {
            int64_t left = p.outer[0] - begin;
            if (left > share) left = share;
            for (; left >= together; left -= together)
                of.template write<computes, together>();
            for (; left > 0; --left)
                of.template write<computes, 1>();
        };
        if (p.prologue == fused_op::none && p.epilogue[0] == fused_op::none)
            write_all.template operator()<false>();
        else
            write_all.template operator()<true>();
    }
}

} // namespace gradnn::gpu::resample
