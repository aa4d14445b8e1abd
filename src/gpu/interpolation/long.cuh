// InterpolateBackward where an input receives very many outputs, of any strides;
// included by strided.cu.
//
// A block computes `elements` neighbours of diff_src. Its other threads share
// their taps: each of n threads takes every n-th (r fastest, then q, then p),
// and their sums are added as a tree, all in f64, compensated for f64 data. So no
// plain sum is long, however many taps there are, and the order follows
// from the shape alone.
#pragma once

#include <cstdint>

#include "gpu/device/dtype.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/interpolation/tables.hpp"

namespace gradnn::gpu::interpolation {

constexpr int strided_threads = 256;

/// Axes of diff_src from the innermost (smallest stride) outwards; logical
/// axis order[i] (N, C, D, H, W) is the i-th.
struct strided_shape {
    int64_t count = 1;
    int order[5] = {};
    int64_t dims[5] = {}; ///< of diff_src, in `order`
    int64_t diff_src_strides[5] = {}; ///< by logical axis
    int64_t diff_dst_strides[5] = {};

    /// Where element `number` is, by logical axis.
    template <typename Index>
    __device__ void locate(int64_t number, int64_t (&position)[5]) const {
        auto rest = static_cast<Index>(number);
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            const auto dim = static_cast<Index>(dims[i]);
            const auto at = static_cast<int64_t>(rest % dim);
            rest /= dim;
            // A loop and not an index, so that `position` stays in registers.
#pragma unroll
            for (int axis = 0; axis < 5; ++axis)
                if (order[i] == axis) position[axis] = at;
        }
    }
};

/// How many elements a block of long_kernel has at a time, a power of two:
/// neighbouring channels or images where diff_dst too has them side by side,
/// which a warp reads at once, else one.
inline int elements_together(const strided_shape &shape) {
    const int inner = shape.order[0];
    if (inner > 1) return 1;
    for (int axis = 2; axis < 5; ++axis)
        if (shape.diff_dst_strides[axis] < shape.diff_dst_strides[inner])
            return 1;
    int elements = 1;
    while (elements < 32 && 2 * elements <= shape.dims[0])
        elements *= 2;
    return elements;
}

template <typename Type, typename Index>
__global__ void __launch_bounds__(strided_threads) long_kernel(
        const Type *diff_dst, Type *diff_src,
        const __grid_constant__ strided_shape shape,
        gathered_axis<sum_of<Type>> axis_d, gathered_axis<sum_of<Type>> axis_h,
        gathered_axis<sum_of<Type>> axis_w, int elements) {
    using total = long_sum<sum_of<Type>>;
    // Not of `total`s, whose constructors shared memory cannot run.
    __shared__ alignas(
            16) unsigned char memory[strided_threads * sizeof(total)];
    auto *const totals = reinterpret_cast<total *>(memory);
    const auto thread = static_cast<int>(threadIdx.x);
    const int lanes = strided_threads / elements;
    const int lane = thread / elements;
    const auto step = static_cast<int64_t>(gridDim.x) * elements;
    for (int64_t first = blockIdx.x * int64_t {elements}; first < shape.count;
            first += step) {
        const int64_t number = first + thread % elements;
        const bool exists = number < shape.count;
        int64_t to = 0;
        total sum;
        if (exists) {
            int64_t position[5];
            shape.locate<Index>(number, position);
            const tap_range d = axis_d.ranges[position[2]];
            const tap_range h = axis_h.ranges[position[3]];
            const tap_range w = axis_w.ranges[position[4]];
            const Type *corner = diff_dst
                    + position[0] * shape.diff_dst_strides[0]
                    + position[1] * shape.diff_dst_strides[1]
                    + d.first * shape.diff_dst_strides[2]
                    + h.first * shape.diff_dst_strides[3]
                    + w.first * shape.diff_dst_strides[4];
#pragma unroll
            for (int axis = 0; axis < 5; ++axis)
                to += position[axis] * shape.diff_src_strides[axis];
            const int64_t taps = d.count * h.count * w.count;
            const bool small = taps < INT32_MAX;
#pragma unroll 4
            for (int64_t tap = lane; tap < taps; tap += lanes) {
                int64_t p = 0;
                int64_t q = 0;
                int64_t r = 0;
                if (small) {
                    const auto columns = static_cast<uint32_t>(w.count);
                    const auto rows = static_cast<uint32_t>(h.count);
                    const uint32_t row = static_cast<uint32_t>(tap) / columns;
                    r = static_cast<uint32_t>(tap) % columns;
                    q = row % rows;
                    p = row / rows;
                } else {
                    r = tap % w.count;
                    q = tap / w.count % h.count;
                    p = tap / w.count / h.count;
                }
                const double weight
                        = static_cast<double>(axis_d.weights[d.offset + p])
                        * static_cast<double>(axis_h.weights[h.offset + q])
                        * static_cast<double>(axis_w.weights[w.offset + r]);
                sum.add(weight
                        * static_cast<double>(
                                widen(corner[p * shape.diff_dst_strides[2]
                                        + q * shape.diff_dst_strides[3]
                                        + r * shape.diff_dst_strides[4]])));
            }
        }
        totals[thread] = sum;
        __syncthreads();
        for (int half = lanes / 2; half > 0; half /= 2) {
            if (lane < half) {
                sum.add(totals[thread + half * elements]);
                totals[thread] = sum;
            }
            __syncthreads();
        }
        if (lane == 0 && exists) diff_src[to] = narrow<Type>(sum.value());
    }
}

} // namespace gradnn::gpu::interpolation
