// Interpolations of any strides and any number of taps; included by strided.cu.
//
// diff_src[n,c,d,h,w] = sum over the outputs (p,q,r) that touch (d,h,w) of
// wd[p] * wh[q] * ww[r] * diff_dst[n,c,p,q,r].
//
// A thread sums an element of diff_src, or some share its taps, of one block or of several:
// each takes every n-th row of them, or column where rows are few or long. A block adds its
// threads' sums as a tree; where several have parts of an element the kernel runs once more
// and adds these. All in f64, compensated for f64 data: no plain sum is long, however many
// taps there are, and the order follows from shape and layout alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "gpu/device/dtype.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/device/positions.cuh"
#include "kernel/problem.hpp"

namespace gradnn::gpu::interpolation {

constexpr int strided_threads = 256;

/// The outputs that an input receives, and the number of the first one's weight.
struct tap_range {
    int64_t first, count, weight;
};

/// A problem, and how threads share its elements.
struct strided_work {
    int64_t count = 1; ///< of elements
    int order[5] = {}; ///< of N, C, D, H, W, the smallest stride first
    int64_t dims[5] = {}; ///< of diff_src, in this order
    int64_t diff_src_strides[5] = {}; ///< by logical axis
    int64_t diff_dst_strides[5] = {};
    const tap_range *ranges[3] = {}; ///< by position
    const double *weights[3] = {};
    /// Neighbouring threads have neighbouring channels or images, which diff_dst has side by
    /// side too, else neighbouring taps.
    bool side_by_side = false;
    int elements = 1; ///< of a block at a time; a power of two, as `parts`
    int parts = 1; ///< blocks for these elements
};

/// For elements of at most so many taps, without tables.
inline strided_work strided_work_of(
        const detail::interpolation_problem &problem, double taps) {
    strided_work made;
    std::array<int, 5> order {4, 3, 2, 1, 0};
    const auto &strides = problem.diff_src.strides;
    const auto &dims = problem.diff_src.dims;
    // Those of one element, whose strides say nothing, last.
    std::ranges::stable_sort(order, {}, [&](int axis) {
        const auto at = static_cast<size_t>(axis);
        return std::pair(dims[at] == 1, strides[at]);
    });
    for (size_t i = 0; i < 5; ++i) {
        made.order[i] = order[i];
        made.dims[i] = dims[static_cast<size_t>(order[i])];
        made.count *= made.dims[i];
        made.diff_src_strides[i] = strides[i];
        made.diff_dst_strides[i] = problem.diff_dst.strides[i];
    }

    constexpr double fewest_taps = 32; // of a thread
    constexpr int64_t enough_blocks = 1024;
    constexpr int most_parts = 64, most_side_by_side = 32;
    const int inner = made.order[0];
    made.side_by_side = inner <= 1 && made.dims[0] > 1;
    for (int axis = 2; axis < 5; ++axis) { // of one position: 0
        const int64_t stride = made.diff_dst_strides[axis];
        made.side_by_side = made.side_by_side
                && (stride == 0 || stride >= made.diff_dst_strides[inner]);
    }
    const auto threads_of_element
            = [&] { return made.parts * strided_threads / made.elements; };
    while (made.elements < strided_threads
            && (taps < fewest_taps * threads_of_element()
                    || (made.side_by_side && made.elements < most_side_by_side
                            && 2 * made.elements <= made.dims[0])))
        made.elements *= 2;
    while (made.parts < most_parts
            && made.count / made.elements * made.parts < enough_blocks
            && taps >= 2 * fewest_taps * threads_of_element())
        made.parts *= 2;
    return made;
}

/// The taps of an element that one of `threads` threads takes.
template <typename Type, typename Total>
__device__ __forceinline__ void add_taps(Total &sum, const strided_work &work,
        const int64_t (&position)[5], const Type *from, int thread,
        int threads) {
    const auto &strides = work.diff_dst_strides;
    from += position[0] * strides[0] + position[1] * strides[1];
    tap_range along[3];
#pragma unroll
    for (int a = 0; a < 3; ++a) {
        along[a] = work.ranges[a][position[a + 2]];
        from += along[a].first * strides[a + 2];
    }
    const auto weight_of = [&](int axis, int64_t tap) {
        return work.weights[axis][along[axis].weight + tap];
    };
    const int64_t rows = along[0].count * along[1].count;
    const int64_t columns = along[2].count;
    if (rows == 0) return;
    int at_once = 1; // columns
    while (at_once < threads
            && (rows * at_once < threads
                    || (at_once < 32 && 16 * at_once <= columns)))
        at_once *= 2;
    int64_t p = 0, q = thread / at_once; // of along[0] and along[1]
    for (int64_t row = q; row < rows;
            row += threads / at_once, q += threads / at_once) {
        if (q >= along[1].count) {
            int64_t more = q;
            q = take(more, along[1].count);
            p += more;
        }
        const Type *const begin = from + p * strides[2] + q * strides[3];
        const double weight = weight_of(0, p) * weight_of(1, q);
#pragma unroll 4
        for (int64_t r = thread % at_once; r < columns; r += at_once)
            sum.add(weight * weight_of(2, r)
                    * static_cast<double>(widen(begin[r * strides[4]])));
    }
}

/// For a sum of each thread. Not of their type, whose constructors it cannot run.
extern __shared__ uint4 strided_shared[];

/// Elements, or the sums of their parts to `to_parts`, part by part of all elements; or
/// elements `from_parts`.
template <typename Type>
__global__ void __launch_bounds__(strided_threads)
        strided_kernel(const Type *diff_dst, Type *diff_src,
                const long_sum<sum_of<Type>> *from_parts,
                long_sum<sum_of<Type>> *to_parts,
                const __grid_constant__ strided_work work) {
    using total = long_sum<sum_of<Type>>;
    auto *const totals = reinterpret_cast<total *>(strided_shared);
    const int parts = from_parts ? 1 : work.parts;
    const int elements = from_parts ? strided_threads : work.elements;
    const auto thread = static_cast<int>(threadIdx.x);
    const int lanes = strided_threads / elements;
    const int lane = work.side_by_side ? thread / elements : thread % lanes;
    const int element = work.side_by_side ? thread % elements : thread / lanes;
    const int neighbour = work.side_by_side ? elements : 1;
    const int part = static_cast<int>(blockIdx.x) % parts;
    const int64_t step = int64_t {gridDim.x} / parts * elements;
    for (int64_t first = int64_t {blockIdx.x} / parts * elements;
            first < work.count; first += step) {
        const int64_t number = first + element;
        const bool exists = number < work.count;
        int64_t rest = exists ? number : 0, to = 0;
        int64_t position[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            const int64_t at = take(rest, work.dims[i]);
            to += at * work.diff_src_strides[work.order[i]];
            position[work.order[i]] = at;
        }
        total sum;
        for (int i = 0; from_parts && exists && i < work.parts; ++i)
            sum.add(from_parts[i * work.count + number]);
        if (!from_parts && exists)
            add_taps(sum, work, position, diff_dst, part * lanes + lane,
                    parts * lanes);
        for (int half = lanes / 2; half > 0; half /= 2) {
            totals[thread] = sum;
            __syncthreads();
            if (lane < half) sum.add(totals[thread + half * neighbour]);
            __syncthreads();
        }
        if (lane != 0 || !exists) continue;
        if (to_parts)
            to_parts[part * work.count + number] = sum;
        else
            diff_src[to] = narrow<Type>(sum.value());
    }
}

} // namespace gradnn::gpu::interpolation
