// The sum of the partial sums of weights, in a fixed order.
#pragma once

#include <cstdint>

#include "gpu/convolution/direct/shape.hpp"
#include "gpu/device/dtype.cuh"

namespace gradnn::gpu::direct {

/// weights[...] = sum of its parts, in a fixed order and in f64: f32 sums of parts that
/// are alike drift. sum_rows threads of a weight.
template <typename Sum, typename Result, typename Index>
__global__ void __launch_bounds__(threads) parts_kernel(const Sum *partials,
        Result *weights, const __grid_constant__ problem_shape<Index> shape,
        const __grid_constant__ weights_cut cut) {
    extern __shared__ double direct_shared[];
    constexpr int of_block = threads / sum_rows;
    const auto thread = static_cast<int>(threadIdx.x);
    const int row = thread / of_block;
    const int64_t number = blockIdx.x * int64_t {of_block} + thread % of_block;
    double total = 0;
    if (number < shape.count)
#pragma unroll 8
        for (int64_t part = row; part < cut.parts; part += sum_rows)
            total += static_cast<double>(partials[part * shape.count + number]);
    direct_shared[thread] = total;
    __syncthreads();
    if (row != 0 || number >= shape.count) return;
    for (int other = 1; other < sum_rows; ++other)
        total += direct_shared[other * of_block + thread];
    const int64_t channel = number % cut.channels;
    int64_t rest = number / cut.channels;
    int64_t at = channel / shape.outputs.by * shape.weights_strides[0]
            + channel % shape.outputs.by * shape.weights_strides[1];
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
        at += rest % shape.axes[axis].window * shape.axes[axis].weights_stride;
        rest /= shape.axes[axis].window;
    }
    weights[at + rest * shape.weights_strides[2]] = narrow<Result>(total);
}

} // namespace gradnn::gpu::direct
