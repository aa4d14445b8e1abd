// Everything: a thread computes one element of diff_src from all its taps, of any strides and
// of sizes that are arguments. In the same order as the other forms, so in the same bits.
#pragma once

#include "gpu/interpolation/resample/device.cuh"

namespace gradnn::gpu::resample {

template <typename Sum>
struct taps_of_element {
    const Sum *weights;
    long long begin, pitch;
    int count;

    __device__ __forceinline__ void find(const axis_table<Sum> &table,
            const axis &along, long long position) {
        const place at = table.places[position];
        weights = table.weights + position * along.most_taps;
        pitch = along.read_pitch;
        begin = at.first * pitch;
        count = at.count;
    }
};

template <jit::element type>
__device__ void resample_any(const jit::stored_of<type> *read,
        jit::stored_of<type> *written, const tables<jit::sum_of<type>> &map,
        const problem_specification &p, long long elements, int threads) {
    using sum = jit::sum_of<type>;
    using one = jit::elements<type, 1>;
    const auto value_of = [&](const jit::stored_of<type> *at) {
        const one value = one::load(at);
        if (p.prologue == fused_op::none) return value[0];
        return computed<type>(p.prologue, value,
                one::load(other_of(at, map.others.prologue)))[0];
    };
    const long long step = static_cast<long long>(gridDim.x) * threads;
    for (long long number
            = blockIdx.x * static_cast<long long>(threads) + threadIdx.x;
            number < elements; number += step) {
        long long rest = number;
        const auto take = [&](int count) {
            if (count == 1) return 0LL;
            const long long taken = rest < 1LL << 31
                    ? static_cast<unsigned>(rest) % static_cast<unsigned>(count)
                    : rest % count;
            rest = rest < 1LL << 31
                    ? static_cast<unsigned>(rest) / static_cast<unsigned>(count)
                    : rest / count;
            return taken;
        };
        const long long inner = take(p.inner);
        const long long at_column = take(p.column.written);
        const long long at_middle = take(p.middle.written);
        const long long at_walk = take(p.walk.written);
        long long from = inner;
        long long to = inner + at_column * p.column.write_pitch
                + at_middle * p.middle.write_pitch
                + at_walk * p.walk.write_pitch;
#pragma unroll
        for (int i = 0; i < most_outer; ++i) {
            const long long outer = take(p.outer[i]);
            from += outer * p.outer_read[i];
            to += outer * p.outer_write[i];
        }
        taps_of_element<sum> walk, middle, column;
        walk.find(map.walk, p.walk, at_walk);
        middle.find(map.middle, p.middle, at_middle);
        column.find(map.column, p.column, at_column);
        const auto *const corner
                = read + from + walk.begin + middle.begin + column.begin;
        // From the last sums to the first.
        const taps_of_element<sum> &last = p.walk_first ? middle : walk;
        const taps_of_element<sum> &next = p.walk_first ? column : middle;
        const taps_of_element<sum> &first = p.walk_first ? walk : column;
        sum all = 0;
        for (int i = 0; i < last.count; ++i) {
            sum of_layer = 0;
            for (int j = 0; j < next.count; ++j) {
                const auto *at = corner + i * last.pitch + j * next.pitch;
                sum of_row = 0;
#pragma unroll 4
                for (int k = 0; k < first.count; ++k, at += first.pitch)
                    of_row = jit::multiply_add(
                            first.weights[k], value_of(at), of_row);
                of_layer = jit::multiply_add(next.weights[j], of_row, of_layer);
            }
            all = jit::multiply_add(last.weights[i], of_layer, all);
        }
        const auto made = jit::with_epilogue(
                p, finished<type, 1>({all}), written + to, map.others);
        made.store(written + to);
    }
}

} // namespace gradnn::gpu::resample
