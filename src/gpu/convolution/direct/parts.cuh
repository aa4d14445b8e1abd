// The sum of the partial sums of weights, in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/convolution/direct/shape.hpp"
#include "gpu/device/dtype.cuh"

namespace gradnn::gpu::direct {

/// weights[...] = sum of its parts, in a fixed order and in f64: f32 sums of parts that
/// are alike drift. sum_rows threads of a weight; of any number of blocks.
template <typename Sum, typename Result, typename Index>
__global__ void __launch_bounds__(threads) parts_kernel(const Sum *partials,
        Result *weights, const __grid_constant__ problem_shape<Index> shape,
        const __grid_constant__ weights_cut cut) {
    extern __shared__ double direct_shared[];
    constexpr int of_block = threads / sum_rows;
    const auto thread = static_cast<int>(threadIdx.x);
    const int row = thread / of_block;
    const auto last = shape.count - 1;
    for (int64_t block = blockIdx.x; block * of_block <= last;
            block += gridDim.x) {
        const int64_t number = block * of_block + thread % of_block;
        double total = 0;
        if (number <= last)
#pragma unroll 8
            for (int64_t part = row; part < cut.parts; part += sum_rows)
                total += static_cast<double>(
                        partials[part * shape.count + number]);
        __syncthreads();
        direct_shared[thread] = total;
        __syncthreads();
        if (row != 0 || number > last) continue;
        for (int other = 1; other < sum_rows; ++other)
            total += direct_shared[other * of_block + thread];
        const int64_t channel = number % cut.channels;
        int64_t rest = number / cut.channels;
        int64_t at = channel / shape.outputs.by * shape.weights_strides[0]
                + channel % shape.outputs.by * shape.weights_strides[1];
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            at += rest % shape.axes[axis].window
                    * shape.axes[axis].weights_stride;
            rest /= shape.axes[axis].window;
        }
        weights[at + rest * shape.weights_strides[2]] = narrow<Result>(total);
    }
}

inline int64_t parts_blocks(int64_t weights) {
    return std::min<int64_t>(ceil_div(weights, threads / sum_rows), 1 << 20);
}

} // namespace gradnn::gpu::direct
