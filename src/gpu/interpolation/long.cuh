// InterpolateBackward where an input receives very many outputs, of any strides;
// included by strided.cu.
//
// Some threads share the taps of an element of diff_src, in one block or in several: each of
// n threads takes every n-th column, and where n are more than a row has columns, the rows
// are shared out too. A block adds its threads' sums as a tree; where several have parts of
// an element a second kernel adds theirs. All in f64, compensated for f64 data: no plain sum
// is long, however many taps there are, and the order follows from shape and layout alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

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

/// Of diff_src of a problem, the axes of the smallest strides first, those of one element,
/// whose strides say nothing, last.
inline strided_shape strided_shape_of(
        const detail::interpolation_problem &problem) {
    strided_shape made;
    std::array<int, 5> order {4, 3, 2, 1, 0};
    const auto &strides = problem.diff_src.strides;
    const auto &dims = problem.diff_src.dims;
    const auto key = [&](int axis) {
        const auto at = static_cast<size_t>(axis);
        return std::pair(dims[at] == 1, strides[at]);
    };
    std::stable_sort(order.begin(), order.end(),
            [&](int a, int b) { return key(a) < key(b); });
    for (int i = 0; i < 5; ++i) {
        const auto axis = static_cast<size_t>(i);
        made.order[i] = order[axis];
        made.dims[i] = dims[static_cast<size_t>(order[axis])];
        made.count *= made.dims[i];
        made.diff_src_strides[i] = strides[axis];
        made.diff_dst_strides[i] = problem.diff_dst.strides[axis];
    }
    return made;
}

/// How threads share elements, in powers of two.
struct long_cut {
    /// Neighbouring threads have neighbouring channels or images, which diff_dst has side by
    /// side too, else neighbouring taps.
    bool side_by_side = false;
    int elements = 0; ///< of a block at a time; 0 where sums are short
    int parts = 1; ///< blocks for these elements
};

/// For elements of at most so many taps.
inline long_cut long_cut_of(const strided_shape &shape, double taps) {
    constexpr double fewest_taps = 32; // of a thread
    constexpr int64_t enough_blocks = 1024;
    constexpr int most_parts = 64;
    long_cut made;
    const int inner = shape.order[0];
    made.side_by_side = inner <= 1 && shape.dims[0] > 1;
    for (int axis = 2; axis < 5; ++axis) // of one position: 0
        made.side_by_side = made.side_by_side
                && (shape.diff_dst_strides[axis] == 0
                        || shape.diff_dst_strides[axis]
                                >= shape.diff_dst_strides[inner]);
    made.elements = 1;
    const auto threads_of_element
            = [&] { return made.parts * strided_threads / made.elements; };
    while (made.elements < 32
            && (made.side_by_side ? 2 * made.elements <= shape.dims[0]
                                  : taps < fewest_taps * threads_of_element()
                                    && made.elements < 8))
        made.elements *= 2;
    while (made.parts < most_parts
            && shape.count / made.elements * made.parts < enough_blocks
            && taps >= 2 * fewest_taps * threads_of_element())
        made.parts *= 2;
    return made;
}

/// The taps of an element that one of `threads` threads takes.
template <typename Type>
class shared_taps {
public:
    using sum = sum_of<Type>;

    __device__ shared_taps(const strided_shape &shape,
            const int64_t (&position)[5], const Type *diff_dst,
            const gathered_axis<sum> &axis_d, const gathered_axis<sum> &axis_h,
            const gathered_axis<sum> &axis_w, int thread, int threads)
        : shape_(shape) {
        const tap_range d = axis_d.ranges[position[2]];
        const tap_range h = axis_h.ranges[position[3]];
        const tap_range w = axis_w.ranges[position[4]];
        first_ = diff_dst + position[0] * shape.diff_dst_strides[0]
                + position[1] * shape.diff_dst_strides[1]
                + d.first * shape.diff_dst_strides[2]
                + h.first * shape.diff_dst_strides[3]
                + w.first * shape.diff_dst_strides[4];
        of_d_ = axis_d.weights + d.offset;
        of_h_ = axis_h.weights + h.offset;
        of_w_ = axis_w.weights + w.offset;
        depths_ = d.count;
        rows_ = h.count;
        columns_ = w.count;
        while (at_once_ < threads && 2 * at_once_ <= columns_)
            at_once_ *= 2;
        begin_ = r_ = thread % at_once_;
        const int64_t row = thread / at_once_;
        const int64_t rows_at_once = threads / at_once_;
        if (rows_ == 0 || columns_ == 0) depths_ = 0;
        if (depths_ == 0) return;
        p_ = row / rows_;
        q_ = row % rows_;
        next_p_ = rows_at_once / rows_;
        next_q_ = rows_at_once % rows_;
    }

    __device__ bool is_there() const { return p_ < depths_; }
    /// Of the present tap; zeros where there is none.
    __device__ void load(Type &value, double &weight) const {
        value = narrow<Type>(sum(0));
        weight = 0;
        if (!is_there()) return;
        value = first_[p_ * shape_.diff_dst_strides[2]
                + q_ * shape_.diff_dst_strides[3]
                + r_ * shape_.diff_dst_strides[4]];
        weight = static_cast<double>(of_d_[p_]) * static_cast<double>(of_h_[q_])
                * static_cast<double>(of_w_[r_]);
    }
    __device__ void advance() {
        r_ += at_once_;
        if (r_ < columns_) return;
        r_ = begin_;
        p_ += next_p_;
        q_ += next_q_;
        if (q_ < rows_) return;
        q_ -= rows_;
        ++p_;
    }

private:
    const strided_shape &shape_;
    const Type *first_;
    const sum *of_d_, *of_h_, *of_w_;
    int64_t depths_, rows_, columns_;
    int64_t at_once_ = 1, begin_ = 0;
    int64_t p_ = 0, q_ = 0, r_ = 0;
    int64_t next_p_ = 0, next_q_ = 0;
};

/// For a sum of each thread. Not of their type, whose constructors it cannot run.
extern __shared__ uint4 long_shared[];

/// Elements, or with parts of them their sums, to `partial`: part by part, of all elements.
template <typename Type, typename Index>
__global__ void __launch_bounds__(strided_threads) long_kernel(
        const Type *diff_dst, Type *diff_src, long_sum<sum_of<Type>> *partial,
        const __grid_constant__ strided_shape shape,
        gathered_axis<sum_of<Type>> axis_d, gathered_axis<sum_of<Type>> axis_h,
        gathered_axis<sum_of<Type>> axis_w, long_cut cut) {
    using total = long_sum<sum_of<Type>>;
    constexpr int ahead = 8; ///< taps on their way
    auto *const totals = reinterpret_cast<total *>(long_shared);
    const auto thread = static_cast<int>(threadIdx.x);
    const int lanes = strided_threads / cut.elements;
    const int lane = cut.side_by_side ? thread / cut.elements : thread % lanes;
    const int element
            = cut.side_by_side ? thread % cut.elements : thread / lanes;
    const int neighbour = cut.side_by_side ? cut.elements : 1;
    const int part = static_cast<int>(blockIdx.x) % cut.parts;
    const auto step
            = static_cast<int64_t>(gridDim.x) / cut.parts * cut.elements;
    for (int64_t first
            = static_cast<int64_t>(blockIdx.x) / cut.parts * cut.elements;
            first < shape.count; first += step) {
        const int64_t number = first + element;
        const bool exists = number < shape.count;
        int64_t to = 0;
        total sum;
        if (exists) {
            int64_t position[5];
            shape.locate<Index>(number, position);
#pragma unroll
            for (int axis = 0; axis < 5; ++axis)
                to += position[axis] * shape.diff_src_strides[axis];
            shared_taps<Type> taps(shape, position, diff_dst, axis_d, axis_h,
                    axis_w, part * lanes + lane, cut.parts * lanes);
            while (taps.is_there()) {
                Type values[ahead];
                double weights[ahead];
#pragma unroll
                for (int i = 0; i < ahead; ++i) {
                    taps.load(values[i], weights[i]);
                    taps.advance();
                }
#pragma unroll
                for (int i = 0; i < ahead; ++i)
                    sum.add(weights[i] * static_cast<double>(widen(values[i])));
            }
        }
        totals[thread] = sum;
        __syncthreads();
        for (int half = lanes / 2; half > 0; half /= 2) {
            if (lane < half) {
                sum.add(totals[thread + half * neighbour]);
                totals[thread] = sum;
            }
            __syncthreads();
        }
        if (lane != 0 || !exists) continue;
        if (cut.parts > 1)
            partial[part * shape.count + number] = sum;
        else
            diff_src[to] = narrow<Type>(sum.value());
    }
}

/// The sums of the parts of elements.
template <typename Type, typename Index>
__global__ void __launch_bounds__(strided_threads)
        long_parts_kernel(const long_sum<sum_of<Type>> *partial, Type *diff_src,
                const __grid_constant__ strided_shape shape, int parts) {
    const int64_t number = blockIdx.x * int64_t {strided_threads} + threadIdx.x;
    if (number >= shape.count) return;
    long_sum<sum_of<Type>> sum;
    for (int part = 0; part < parts; ++part)
        sum.add(partial[part * shape.count + number]);
    int64_t position[5];
    shape.locate<Index>(number, position);
    int64_t to = 0;
#pragma unroll
    for (int axis = 0; axis < 5; ++axis)
        to += position[axis] * shape.diff_src_strides[axis];
    diff_src[to] = narrow<Type>(sum.value());
}

} // namespace gradnn::gpu::interpolation
