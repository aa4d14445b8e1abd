// Gradients of weights from their partial sums, in a fixed order.
//
// Blocks have some neighbouring weights, and rows of threads the parts in turn; the rows'
// sums are added in ascending order. Where kernels multiplied zeros that stand for what
// lies outside, a sum that is not finite is taken again from src and dst, over nothing but
// the terms of the formula.
#pragma once

#include <cstdint>

#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu {

constexpr int weights_sum_threads = 256;

/// Partial sums [part][number] of weights, whose numbers count the channels of dst, then
/// the window along W, H and D, then the channels of src in a group; and where a weight
/// and its terms lie, in elements. Index: of weights.
template <typename Index>
struct partial_weights {
    /// Position y of dst meets y * stride - pad + tap * dilation of src.
    struct window_axis {
        int64_t src, dst, window, stride, dilation, pad;
        int64_t src_stride, dst_stride, weights_stride;
        divisor<Index> by_window;
    };
    window_axis axes[3]; ///< D, H, W
    int64_t count = 1; ///< of weights
    int64_t parts;
    divisor<Index> channels; ///< of dst
    divisor<Index> outputs; ///< of these, in a group
    int64_t positions; ///< of dst, of all images
    int64_t weights_strides[3]; ///< group, O, I
    int64_t src_strides[3], dst_strides[3]; ///< image, group, channel of it
    bool has_zeros; ///< multiplied in place of what lies outside
    int rows; ///< of threads, which share the parts of a weight

    /// Of a convolution_problem, whose src and dst are those that the kernels are given:
    /// their groups may be filled up with channels.
    template <typename Problem>
    partial_weights(const Problem &problem, int64_t of_parts, bool zeros)
        : parts(of_parts),
          channels(problem.weights.dims[0] * problem.weights.dims[1]),
          outputs(problem.weights.dims[1]),
          positions(problem.dst.dims[0]),
          has_zeros(zeros),
          rows(8) {
        const auto &[direction, src, weights, dst, strides, dilations, pads]
                = problem;
        for (const int64_t dim : weights.dims)
            count *= dim;
        // Few weights would have few blocks where sums are taken again.
        constexpr int64_t few = 8192;
        if (parts > 64 || count < few) rows = 32;
        for (size_t i = 0; i < 3; ++i) {
            axes[i] = {src.dims[i + 2], dst.dims[i + 2], weights.dims[i + 3],
                    strides[i], dilations[i], pads[i], src.strides[i + 2],
                    dst.strides[i + 2], weights.strides[i + 3],
                    divisor<Index>(weights.dims[i + 3])};
            positions *= dst.dims[i + 2];
            weights_strides[i] = weights.strides[i];
        }
        const auto image_group_channel = [&](const auto &tensor,
                                                 int64_t(&to)[3]) {
            to[0] = tensor.strides[0];
            to[1] = tensor.dims[1] / weights.dims[0] * tensor.strides[1];
            to[2] = tensor.strides[1];
        };
        image_group_channel(src, src_strides);
        image_group_channel(dst, dst_strides);
    }
};

struct weight_place {
    int64_t group, output, input; ///< the latter two of the group
    int64_t tap[3];

    template <typename Index>
    __device__ weight_place(const partial_weights<Index> &of, Index number) {
        Index channel = take(number, of.channels);
#pragma unroll
        for (int axis = 2; axis >= 0; --axis)
            tap[axis] = take(number, of.axes[axis].by_window);
        input = number;
        output = take(channel, of.outputs);
        group = channel;
    }

    template <typename Index>
    __device__ int64_t offset(const partial_weights<Index> &of) const {
        int64_t at = group * of.weights_strides[0]
                + output * of.weights_strides[1]
                + input * of.weights_strides[2];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis)
            at += tap[axis] * of.axes[axis].weights_stride;
        return at;
    }
};

/// Of a weight's sum, taken from the definition, the share of one row of threads; Index
/// counts the positions of dst.
template <typename Index, typename Type, typename Weights>
__device__ double weight_again(const Type *src, const Type *dst,
        const Weights &of, const weight_place &weight, int row) {
    src += weight.group * of.src_strides[1] + weight.input * of.src_strides[2];
    dst += weight.group * of.dst_strides[1] + weight.output * of.dst_strides[2];
    double sum = 0;
#pragma unroll 1
    for (Index position = row; position < static_cast<Index>(of.positions);
            position += of.rows) {
        Index rest = position;
        int64_t src_at = 0;
        int64_t dst_at = 0;
        bool is_inside = true;
#pragma unroll
        for (int i = 2; i >= 0; --i) {
            const auto &axis = of.axes[i];
            const auto dim = static_cast<Index>(axis.dst);
            const int64_t y = rest % dim;
            rest /= dim;
            const int64_t z = y * axis.stride - axis.pad
                    + weight.tap[i] * axis.dilation;
            is_inside = is_inside && z >= 0 && z < axis.src;
            src_at += z * axis.src_stride;
            dst_at += y * axis.dst_stride;
        }
        if (!is_inside) continue;
        sum += static_cast<double>(
                       widen(src[rest * of.src_strides[0] + src_at]))
                * static_cast<double>(
                        widen(dst[rest * of.dst_strides[0] + dst_at]));
    }
    return sum;
}

/// Of any number of blocks. In f64, for f32 sums of parts that are alike drift.
template <typename Type, typename Result, typename Index>
__global__ void __launch_bounds__(weights_sum_threads, 4)
        convolution_weights_sum_kernel(const sum_of<Type> *partials,
                const Type *src, const Type *dst, Result *weights,
                const __grid_constant__ partial_weights<Index> of) {
    __shared__ double shared[weights_sum_threads];
    const auto thread = static_cast<int>(threadIdx.x);
    const int of_block = weights_sum_threads / of.rows;
    const int lane = thread % of_block;
    const int row = thread / of_block;
    // For all threads of a weight.
    const auto sum_of_rows = [&](double share) {
        __syncthreads();
        shared[thread] = share;
        __syncthreads();
        if (row == 0) {
            for (int other = 1; other < of.rows; ++other)
                share += shared[other * of_block + lane];
            shared[lane] = share;
        }
        __syncthreads();
        return shared[lane];
    };
    wait_and_let_later_work_start();
    for (int64_t block = blockIdx.x; block * of_block < of.count;
            block += gridDim.x) {
        const int64_t number = block * of_block + lane;
        const bool is_one = number < of.count;
        double share = 0;
        if (is_one)
#pragma unroll 8
            for (int64_t part = row; part < of.parts; part += of.rows)
                share += static_cast<double>(
                        partials[part * of.count + number]);
        double sum = sum_of_rows(share);
        const bool again = of.has_zeros && is_one && !is_finite(sum);
        if (__syncthreads_or(again ? 1 : 0) != 0) {
            share = 0;
            if (again) {
                const weight_place weight(of, static_cast<Index>(number));
                share = of.positions < int64_t {1} << 31
                        ? weight_again<uint32_t>(src, dst, of, weight, row)
                        : weight_again<int64_t>(src, dst, of, weight, row);
            }
            const double other = sum_of_rows(share);
            if (again) sum = other;
        }
        if (row == 0 && is_one)
            weights[weight_place(of, static_cast<Index>(number)).offset(of)]
                    = narrow<Result>(sum);
    }
}

} // namespace gradnn::gpu
