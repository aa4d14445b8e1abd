// Everything: a thread has a vector of inner elements of diff_src at one place of the resampled
// axes, of some outer positions, and reads all their taps; strides and sizes are arguments. In
// the same order as the other forms, so in the same bits.
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

/// The remainder of a number, which becomes the quotient.
__device__ __forceinline__ long long taken_from(long long &rest, int count) {
    if (count == 1) return 0;
    const bool narrow = rest < 1LL << 31;
    const long long taken = narrow
            ? static_cast<unsigned>(rest) % static_cast<unsigned>(count)
            : rest % count;
    rest = narrow ? static_cast<unsigned>(rest) / static_cast<unsigned>(count)
                  : rest / count;
    return taken;
}

/// To each sum the product of a weight and its value.
template <typename Sum, int count, typename Values>
__device__ __forceinline__ void add_weighted(
        Sum (&to)[count], Sum weight, const Values &values) {
#pragma unroll
    for (int v = 0; v < count; ++v)
        to[v] = jit::multiply_add(weight, values[v], to[v]);
}

template <jit::element type, int vector>
__device__ void resample_any(const jit::stored_of<type> *read,
        jit::stored_of<type> *written, const tables<jit::sum_of<type>> &map,
        const problem_specification &p, const generic_cut &c) {
    using sum = jit::sum_of<type>;
    using unit = jit::elements<type, vector>;
    const auto value_of = [&](const jit::stored_of<type> *at) {
        const unit value = unit::load(at);
        if (p.prologue == fused_op::none) return value;
        return computed<type>(p.prologue, value,
                unit::load(other_of(at, map.others.prologue)));
    };
    const long long of_outers = (c.places + c.threads - 1) / c.threads;
    for (long long block = blockIdx.x; block < c.blocks; block += gridDim.x) {
        long long rest = block % of_outers * c.threads + threadIdx.x;
        if (rest >= c.places) continue;
        const long long inner = taken_from(rest, p.inner / vector) * vector;
        const long long at_column = taken_from(rest, p.column.written);
        const long long at_middle = taken_from(rest, p.middle.written);
        const long long at_walk = rest;
        taps_of_element<sum> walk, middle, column;
        walk.find(map.walk, p.walk, at_walk);
        middle.find(map.middle, p.middle, at_middle);
        column.find(map.column, p.column, at_column);
        // From the last sums to the first.
        const taps_of_element<sum> &last = p.walk_first ? middle : walk;
        const taps_of_element<sum> &next = p.walk_first ? column : middle;
        const taps_of_element<sum> &first = p.walk_first ? walk : column;
        const long long from = inner + walk.begin + middle.begin + column.begin;
        const long long to = inner + at_column * p.column.write_pitch
                + at_middle * p.middle.write_pitch
                + at_walk * p.walk.write_pitch;
        const int begin
                = static_cast<int>(block / of_outers) * c.outers_of_thread;
        for (int outer = begin;
                outer - begin < c.outers_of_thread && outer < c.outers;
                ++outer) {
            long long of_outer = outer;
            const auto *corner = read + from;
            auto *place = written + to;
#pragma unroll
            for (int i = 0; i < most_outer; ++i) {
                const long long at = taken_from(of_outer, p.outer[i]);
                corner += at * p.outer_read[i];
                place += at * p.outer_write[i];
            }
            sum all[vector] = {};
            for (int i = 0; i < last.count; ++i) {
                sum of_layer[vector] = {};
                for (int j = 0; j < next.count; ++j) {
                    const auto *at = corner + i * last.pitch + j * next.pitch;
                    sum of_row[vector] = {};
#pragma unroll 4
                    for (int k = 0; k < first.count; ++k, at += first.pitch)
                        add_weighted(of_row, first.weights[k], value_of(at));
                    add_weighted(of_layer, next.weights[j], of_row);
                }
                add_weighted(all, last.weights[i], of_layer);
            }
            jit::with_epilogue(
                    p, finished<type, vector>(all), place, map.others)
                    .store(place);
        }
    }
}

} // namespace gradnn::gpu::resample
