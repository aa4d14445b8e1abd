// Everything: a thread computes one element of diff_src from all its taps, of any strides and
// of sizes that are arguments. In the same order as the other forms, so in the same bits.
#pragma once

#include "gpu/interpolation/resample/specification.hpp"
#include "gpu/interpolation/resample/tables.hpp"
#include "gpu/jit/device.cuh"

namespace gradnn::gpu::resample {

template <typename Sum>
struct taps_of_element {
    const Sum *weights;
    long long begin;
    int count;

    __device__ __forceinline__ void find(const axis_table<Sum> &table,
            const axis &along, long long position) {
        const place at = table.places[position];
        weights = table.weights + position * along.most_taps;
        begin = at.first * along.read_pitch;
        count = at.count;
    }
};

template <jit::element type>
__device__ void resample_any(const jit::stored_of<type> *read,
        jit::stored_of<type> *written, const tables<jit::sum_of<type>> &map,
        const problem_specification &p, long long elements, int threads) {
    using sum = jit::sum_of<type>;
    using one = jit::elements<type, 1>;
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
        sum all = 0;
        if (p.walk_first) {
            for (int j = 0; j < middle.count; ++j) {
                sum of_row = 0;
                for (int k = 0; k < column.count; ++k) {
                    const auto *from_here = corner + j * p.middle.read_pitch
                            + k * p.column.read_pitch;
                    sum of_walk = 0;
#pragma unroll 4
                    for (int i = 0; i < walk.count;
                            ++i, from_here += p.walk.read_pitch)
                        of_walk = jit::multiply_add(walk.weights[i],
                                one::load(from_here)[0], of_walk);
                    of_row = jit::multiply_add(
                            column.weights[k], of_walk, of_row);
                }
                all = jit::multiply_add(middle.weights[j], of_row, all);
            }
            walk.count = 0;
        }
        for (int i = 0; i < walk.count; ++i) {
            sum of_layer = 0;
            for (int j = 0; j < middle.count; ++j) {
                const auto *row = corner + i * p.walk.read_pitch
                        + j * p.middle.read_pitch;
                sum of_row = 0;
#pragma unroll 4
                for (int k = 0; k < column.count;
                        ++k, row += p.column.read_pitch)
                    of_row = jit::multiply_add(
                            column.weights[k], one::load(row)[0], of_row);
                of_layer = jit::multiply_add(
                        middle.weights[j], of_row, of_layer);
            }
            all = jit::multiply_add(walk.weights[i], of_layer, all);
        }
        // 0 in place of -0, as device.cuh has it.
        one::of({all + sum(0)}).store(written + to);
    }
}

} // namespace gradnn::gpu::resample
