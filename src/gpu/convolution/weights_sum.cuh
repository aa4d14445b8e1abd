// Gradients of weights from their partial sums, in a fixed order.
#pragma once

#include <cstdint>

#include "gpu/device/dtype.cuh"

namespace gradnn::gpu {

/// Partial sums [part][number] of weights, whose numbers count the channels of dst, then
/// the window along W, H and D, then the channels of src in a group; and where a weight
/// lies, in elements.
struct partial_weights {
    int64_t count; ///< of weights
    int64_t parts;
    int64_t channels; ///< of dst
    int64_t outputs; ///< of these, in a group
    int64_t window[3]; ///< D, H, W
    int64_t window_strides[3];
    int64_t strides[3]; ///< group, O, I

    /// Of a convolution_problem.
    template <typename Problem>
    partial_weights(const Problem &problem, int64_t of_parts)
        : count(1), parts(of_parts), channels(problem.dst.dims[1]) {
        const auto &[type, dims, all_strides] = problem.weights;
        for (const int64_t dim : dims)
            count *= dim;
        outputs = dims[1];
        for (size_t i = 0; i < 3; ++i) {
            window[i] = dims[3 + i];
            window_strides[i] = all_strides[3 + i];
            strides[i] = all_strides[i];
        }
    }
};

constexpr int weights_sum_threads = 256;
/// Threads that share the parts of a weight.
constexpr int weights_sum_rows = 32;

/// In f64, for f32 sums of parts that are alike drift. Of any number of blocks, with a
/// double of shared memory a thread.
template <typename Sum, typename Result>
__global__ void __launch_bounds__(weights_sum_threads)
        convolution_weights_sum_kernel(const Sum *partials, Result *weights,
                const __grid_constant__ partial_weights of) {
    extern __shared__ double weights_sum_shared[];
    constexpr int of_block = weights_sum_threads / weights_sum_rows;
    const auto thread = static_cast<int>(threadIdx.x);
    const int row = thread / of_block;
    const auto last = of.count - 1;
    for (int64_t block = blockIdx.x; block * of_block <= last;
            block += gridDim.x) {
        const int64_t number = block * of_block + thread % of_block;
        double total = 0;
        if (number <= last)
#pragma unroll 8
            for (int64_t part = row; part < of.parts; part += weights_sum_rows)
                total += static_cast<double>(
                        partials[part * of.count + number]);
        __syncthreads();
        weights_sum_shared[thread] = total;
        __syncthreads();
        if (row != 0 || number > last) continue;
        for (int other = 1; other < weights_sum_rows; ++other)
            total += weights_sum_shared[other * of_block + thread];
        const int64_t channel = number % of.channels;
        int64_t rest = number / of.channels;
        int64_t at = channel / of.outputs * of.strides[0]
                + channel % of.outputs * of.strides[1];
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            at += rest % of.window[axis] * of.window_strides[axis];
            rest /= of.window[axis];
        }
        weights[at + rest * of.strides[2]] = narrow<Result>(total);
    }
}

} // namespace gradnn::gpu
