// The bias gradient: the sum of the partial sums.
#pragma once

#include "gpu/bias/batches.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::bias {

/// Where the partial sums of a channel are.
struct partial_shape {
    int64_t channels = 0;
    int64_t channel_stride = 1;
    int64_t count = 1; ///< groups of `run` neighbouring sums
    int64_t stride = 0;
    exact_divider run;

    /// Of all channels: what the workspace holds.
    int64_t total() const { return channels * count * run.by; }
};

constexpr int final_threads = 512;
constexpr int least_lanes = 16; ///< of a channel

/// `lanes` threads (a power of two) share a channel; a block has as many
/// channels as that leaves, 32 at most. Neighbouring threads read neighbouring
/// sums: of channels that are neighbours, else of one channel.
template <typename Sum, typename Result>
__global__ void __launch_bounds__(final_threads, 3) final_kernel(
        const Sum *partials, Result *diff_bias, int64_t diff_bias_stride,
        const __grid_constant__ partial_shape shape, int lanes) {
    constexpr int final_warps = final_threads / 32;
    __shared__ double warp_sums[final_threads];
    const auto thread = static_cast<int>(threadIdx.x);
    const int width = final_threads / lanes; // channels of a block
    const bool neighbours = shape.channel_stride == 1;
    const int of_block = neighbours ? thread % width : thread / lanes;
    const int lane = neighbours ? thread / width : thread % lanes;
    const int64_t channel = blockIdx.x * int64_t {width} + of_block;
    const Sum *from = partials + channel * shape.channel_stride;
    const auto items = channel < shape.channels
            ? static_cast<uint32_t>(shape.count) * shape.run.by
            : 0U;
    const auto place = [&](uint32_t item) {
        const int in_run = take(item, shape.run);
        return item * shape.stride + in_run;
    };
    wait_and_let_later_work_start();
    long_sum<Sum> sum_of_lane;
    for (auto item = static_cast<uint32_t>(lane); item < items;
            item += static_cast<uint32_t>(in_flight * lanes)) {
        Sum some[in_flight];
#pragma unroll
        for (int i = 0; i < in_flight; ++i) {
            const uint32_t at = item + static_cast<uint32_t>(i * lanes);
            some[i] = at < items ? from[place(at)] : Sum {0};
        }
        sum_of_lane.add(sum_tree(some));
    }
    double total = sum_of_lane.value();
    // Across a warp, then across the warps of a channel.
    const int apart = neighbours ? width : 1;
    for (int distance = (neighbours ? 32 : min(lanes, 32)) / 2;
            distance >= apart; distance /= 2)
        total += __shfl_down_sync(0xffffffffU, total, distance);
    const int count = neighbours ? final_warps : max(lanes / 32, 1);
    if (neighbours) {
        if (thread % 32 < width)
            warp_sums[thread / 32 * width + thread % 32] = total;
    } else if (lane % 32 == 0) {
        warp_sums[of_block * count + lane / 32] = total;
    }
    __syncthreads();
    const int64_t own = blockIdx.x * int64_t {width} + thread;
    if (thread >= width || own >= shape.channels) return;
    const double *sums = warp_sums + thread * (neighbours ? 1 : count);
    total = 0;
#pragma unroll
    for (int i = 0; i < final_warps; ++i)
        if (i < count) total += sums[i * (neighbours ? width : 1)];
    diff_bias[own * diff_bias_stride] = narrow<Result>(total);
}

} // namespace gradnn::gpu::bias
