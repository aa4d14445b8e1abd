// Gradient of src with one to four channels along one axis: what its kernels are told, and
// which there are. See few_channels.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "gpu/device/rounding.hpp"

namespace gradnn::detail {
struct convolution_problem;
}

namespace gradnn::gpu::few_channels {

struct problem_shape {
    int channels = 1; ///< of src
    int outputs = 1; ///< channels of dst
    int src = 1; ///< positions
    int dst = 1;
    int kernel = 1;
    int stride = 1;
    int pad = 0;
    int first = 0; ///< the v of the first position of src
    int64_t src_strides[3] = {}; ///< n, i, x
    int64_t dst_strides[3] = {}; ///< n, o, y
    int64_t weights_strides[3] = {}; ///< o, i, k
    int segments = 1; ///< threads along a row
    int column_tiles = 1; ///< pieces of a row
    int staged_columns = 1;
    bool channels_last = false;
    // Of the kernel that is taken, not below the problem's.
    int steps = 1; ///< taps of a phase
    int held_channels = 1;
};

/// Weights of an output channel, whole 16 bytes.
__host__ __device__ constexpr int tap_floats(
        int steps, int stride, int channels) {
    return round_up(steps * stride * channels, 4);
}

/// Threads along a row, which are a warp, the warps of a block at most, and the output
/// channels of a stage: in NXC 32 bytes, what memory gives at least.
constexpr int lanes = 32;
constexpr int most_ways = 8;
constexpr int most_threads = most_ways * lanes;
constexpr int stage_outputs = 8;

/// Neighbouring v of a thread.
__host__ __device__ constexpr int cells_of(int stride) {
    return stride < 4 ? 8 : 4;
}

/// Where float i of a row lies: the 16 bytes that a quarter of a warp reads, 32 bytes
/// apart, are in different banks. Threads 16 bytes apart need no gaps.
__host__ __device__ constexpr int place_of(int stride, int i) {
    return cells_of(stride) == 4 ? i : i + i / 32 * 4;
}

/// Floats from row to row of a stage, an odd multiple of 16 bytes, so that copies of 8
/// rows with 4 columns of each are to different banks. A thread reads whole 16 bytes, past
/// its last cell.
__host__ __device__ constexpr int row_pitch(int steps, int stride) {
    const int cells = cells_of(stride);
    const int read = (lanes - 1) * cells + round_up(cells + steps - 1, 4);
    const int floats = round_up(place_of(stride, read - 1) + 1, 4);
    return floats + (floats % 8 == 0 ? 4 : 0);
}

/// Floats from thread to thread of the sums of one channel, an odd multiple of 16 bytes.
__host__ __device__ constexpr int sums_pitch_of(int stride) {
    const int columns = cells_of(stride) * stride;
    return columns + (columns % 8 == 0 ? 4 : 0);
}

/// Shared memory of a warp, in floats: two stages, and then its sums.
__host__ __device__ constexpr int floats_of_warp(
        int steps, int stride, int channels) {
    const int stages = 2 * stage_outputs
            * (row_pitch(steps, stride) + tap_floats(steps, stride, channels));
    const int sums = channels * lanes * sums_pitch_of(stride);
    return stages > sums ? stages : sums;
}

// In few_channels.cpp: host arithmetic.

/// Of a block, where the device allows so much: two of them fit a multiprocessor of
/// 228 KiB, as launch bounds ask.
constexpr int64_t most_shared_bytes = 96 << 10;

/// What the kernel of data is launched with; without blocks where there is no cut.
struct launch_grid {
    int64_t blocks = 0;
    int threads = 0;
    size_t shared_bytes = 0;
};

problem_shape shape_of(const detail::convolution_problem &);
/// Sets what the shape says of the cut; blocks may have so much shared memory.
launch_grid cut(problem_shape &, int64_t images, int64_t multiprocessors,
        int64_t most_bytes);

// In data.cu.
/// gathered[o][t][phase][i], of weights; `count` floats.
__global__ void few_weights_kernel(const float *weights, float *gathered,
        const __grid_constant__ problem_shape shape, int64_t count);
using data_kernel = void(const float *diff_dst, const float *gathered,
        float *diff_src, problem_shape);
data_kernel *data_kernel_of(const problem_shape &);

} // namespace gradnn::gpu::few_channels
