// Gradients of weights from partial sums (weights.cuh), in f64 and in a fixed order.
#pragma once

#include "gpu/convolution/sliding/device.cuh"
#include "gpu/convolution/sliding/weights_specification.hpp"

namespace gradnn::gpu::sliding {

/// A weight again, over nothing but the terms of the formula, by all threads of a block.
template <weights_specification s>
__device__ __noinline__ double weight_again(const storage<s.of.type> *src,
        const storage<s.of.type> *dst, int number, double *shared) {
    constexpr problem_specification p = s.of;
    const int channel = number % (p.channels * p.multiplier);
    const int tap = number / (p.channels * p.multiplier);
    const int kw = tap % p.column.taps;
    const int kh = tap / p.column.taps % p.row.taps;
    const int kd = tap / (p.column.taps * p.row.taps);
    double total = 0;
    const long long positions = static_cast<long long>(p.images)
            * p.depth.written * p.row.written * p.column.written;
#pragma unroll 1
    for (long long i = threadIdx.x; i < positions; i += 256) {
        const int x = i % p.column.written;
        long long rest = i / p.column.written;
        const int y = digit_of(rest, p.row.written);
        const int z = rest % p.depth.written;
        const long long image = rest / p.depth.written;
        const int at[] = {z * p.depth.step + p.depth.met(0, kd),
                y * p.row.step + p.row.met(0, kh),
                x * p.column.step + p.column.met(0, kw)};
        if (at[0] < 0 || at[0] >= p.depth.read || at[1] < 0
                || at[1] >= p.row.read || at[2] < 0 || at[2] >= p.column.read)
            continue;
        total = multiply_add(
                static_cast<double>(widen<p.type>(src[image * p.read.image
                        + channel / p.multiplier * p.read.channel
                        + at[0] * p.read.depth + at[1] * p.read.row
                        + at[2] * p.read.column])),
                static_cast<double>(widen<p.type>(dst[image * p.written.image
                        + channel * p.written.channel + z * p.written.depth
                        + y * p.written.row + x * p.written.column])),
                total);
    }
    __syncthreads();
    shared[threadIdx.x] = total;
    __syncthreads();
    total = 0;
    for (int i = 0; i < 256; ++i)
        total += shared[i];
    return total;
}

/// Blocks of 256 threads have 32 weights: of each eight threads add every eighth part.
template <weights_specification s>
__device__ void add_parts(const storage<s.of.type> *src,
        const storage<s.of.type> *dst, const sum<s.of.type> *partials,
        storage<s.of.weights_type> *weights) {
    constexpr problem_specification p = s.of;
    constexpr int channels = p.channels * p.multiplier;
    constexpr int count = p.depth.taps * p.row.taps * p.column.taps * channels;
    __shared__ double shared[256];
    __shared__ double totals[32];
    wait_and_let_later_work_start();
    const int thread = static_cast<int>(threadIdx.x);
    const int number = static_cast<int>(blockIdx.x) * 32 + thread % 32;
    double total = 0;
    if (number < count)
#pragma unroll 8
        for (int part = thread / 32; part < s.cut.parts; part += 8)
            total += static_cast<double>(
                    partials[static_cast<long long>(part) * count + number]);
    shared[thread] = total;
    __syncthreads();
    if (thread < 32) {
        total = 0;
        for (int i = 0; i < 8; ++i)
            total += shared[i * 32 + thread];
        totals[thread] = total;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 32; ++i) {
        const int other = static_cast<int>(blockIdx.x) * 32 + i;
        if (other >= count || totals[i] - totals[i] == 0) continue;
        const double again = weight_again<s>(src, dst, other, shared);
        if (thread == i) total = again;
    }
    if (thread >= 32 || number >= count) return;
    const int channel = number % channels;
    const int tap = number / channels;
    weights[weight_at<p>(channel / p.multiplier, channel % p.multiplier,
            tap / (p.column.taps * p.row.taps),
            tap / p.column.taps % p.row.taps, tap % p.column.taps)]
            = narrow_once<p.weights_type>(total);
}

} // namespace gradnn::gpu::sliding
