// Everything: a thread computes one element of diff_src from all its taps, of any strides and
// of sizes that are arguments. In the same order as walk.cuh, so in the same bits.
#pragma once

#include "gpu/interpolation/resample/specification.hpp"
#include "gpu/interpolation/resample/tables.hpp"
#include "gpu/jit/device.cuh"

namespace gradnn::gpu::resample {

/// The axes: walk, middle, column; then all others, of which a thread's neighbours are along
/// the first.
struct generic_problem {
    int written[3], most_taps[3];
    long long write_pitch[3], read_pitch[3];
    int others[most_outer + 1];
    long long other_write[most_outer + 1], other_read[most_outer + 1];
    long long elements; ///< of diff_src
};

constexpr generic_problem generic_of(const problem_specification &p) {
    generic_problem made {};
    made.elements = p.inner;
    const axis *const axes[3] = {&p.walk, &p.middle, &p.column};
    for (int a = 0; a < 3; ++a) {
        made.written[a] = axes[a]->written;
        made.most_taps[a] = axes[a]->most_taps;
        made.write_pitch[a] = axes[a]->write_pitch;
        made.read_pitch[a] = axes[a]->read_pitch;
        made.elements *= axes[a]->written;
    }
    made.others[0] = p.inner;
    made.other_write[0] = made.other_read[0] = 1;
    for (int i = 0; i < most_outer; ++i) {
        made.others[i + 1] = p.outer[i];
        made.other_write[i + 1] = p.outer_write[i];
        made.other_read[i + 1] = p.outer_read[i];
        made.elements *= p.outer[i];
    }
    return made;
}

template <typename Sum>
struct taps_of_element {
    const Sum *weights;
    long long begin;
    int count;

    __device__ __forceinline__ void find(const axis_table<Sum> &table,
            const generic_problem &p, int axis, long long position) {
        const place at = table.places[position];
        weights = table.weights + position * p.most_taps[axis];
        begin = at.first * p.read_pitch[axis];
        count = at.count;
    }
};

template <jit::element type>
__device__ void resample_any(const jit::stored_of<type> *read,
        jit::stored_of<type> *written, const tables<jit::sum_of<type>> &map,
        const generic_problem &p, int threads) {
    using sum = jit::sum_of<type>;
    using one = jit::elements<type, 1>;
    const long long step = static_cast<long long>(gridDim.x) * threads;
    for (long long number
            = blockIdx.x * static_cast<long long>(threads) + threadIdx.x;
            number < p.elements; number += step) {
        long long rest = number, from = 0, to = 0;
        long long at[3] = {0, 0, 0};
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
#pragma unroll
        for (int i = 0; i <= most_outer; ++i) {
            const long long other = take(p.others[i]);
            from += other * p.other_read[i];
            to += other * p.other_write[i];
            if (i > 0) continue;
            at[2] = take(p.written[2]);
            at[1] = take(p.written[1]);
            at[0] = take(p.written[0]);
        }
        taps_of_element<sum> walk, middle, column;
        walk.find(map.walk, p, 0, at[0]);
        middle.find(map.middle, p, 1, at[1]);
        column.find(map.column, p, 2, at[2]);
        const auto *const corner
                = read + from + walk.begin + middle.begin + column.begin;
        sum all = 0;
        for (int i = 0; i < walk.count; ++i) {
            sum of_layer = 0;
            for (int j = 0; j < middle.count; ++j) {
                const auto *row = corner + i * p.read_pitch[0]
                        + j * p.read_pitch[1];
                sum of_row = 0;
#pragma unroll 4
                for (int k = 0; k < column.count; ++k, row += p.read_pitch[2])
                    of_row = jit::multiply_add(
                            column.weights[k], one::load(row)[0], of_row);
                of_layer = jit::multiply_add(
                        middle.weights[j], of_row, of_layer);
            }
            all = jit::multiply_add(walk.weights[i], of_layer, all);
        }
#pragma unroll
        for (int i = 0; i < 3; ++i)
            to += at[i] * p.write_pitch[i];
        // 0 in place of -0, as device.cuh has it.
        one::of({all + sum(0)}).store(written + to);
    }
}

} // namespace gradnn::gpu::resample
