// Gradient of src with one to four channels: what its kernels are told, and which
// there are. See few_channels.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "gpu/device/rounding.hpp"

namespace gradnn::detail {
struct convolution_problem;
}

namespace gradnn::gpu::few_channels {

struct window_axis {
    int src = 1;
    int dst = 1;
    int kernel = 1;
    int stride = 1;
    int pad = 0;
    int first = 0; ///< the v of the first position of src
};

struct problem_shape {
    int channels = 1;
    int outputs = 1;
    window_axis axes[3];
    int64_t src_strides[5] = {};
    int64_t dst_strides[5] = {};
    int64_t weights_strides[5] = {}; ///< o, i, kd, kh, kw
    int segments = 1; ///< threads along a row
    int cell_rows = 1; ///< tiles: v along H of a block
    int row_tiles = 1; ///< tiles
    int column_tiles = 1;
    int staged_rows = 1; ///< tiles: of diff_dst
    int staged_columns = 1;
    int pitch = 1; ///< tiles: floats from row to row of a stage
    int stage_floats = 1; ///< tiles: rows, then weights
    bool channels_last = false;
    // Of the kernel that is taken, not below the problem's.
    int steps = 1; ///< taps of a phase along W
    int held_channels = 1;
};

/// Where float i of a row lies: the 16 bytes that a quarter of a warp reads,
/// 32 or 64 bytes apart, are in different banks.
__host__ __device__ constexpr int staged_place(int i) {
    return i + i / 32 * 4;
}

/// Weights of a window row, whole 16 bytes.
__host__ __device__ constexpr int tap_floats(
        int steps, int stride, int channels) {
    return round_up(steps * stride * channels, 4);
}

/// Tiles: a block's threads, and the output channels of a stage.
constexpr int tile_threads = 256;
constexpr int tile_outputs = 4;

/// Tiles: neighbouring v of a thread, whole 16 bytes: 16 columns where they can
/// be.
__host__ __device__ constexpr int tile_cells(int stride) {
    return stride < 4 ? 16 / stride : 4;
}

/// Lines: threads along a row, which are a warp, the warps of a block at most,
/// and the output channels of a stage: in NXC 32 bytes, what memory gives at
/// least.
constexpr int line_lanes = 32;
constexpr int line_most_ways = 8;
constexpr int line_outputs = 8;

/// Lines: neighbouring v of a thread.
__host__ __device__ constexpr int line_cells(int stride) {
    return stride < 4 ? 8 : 4;
}

/// Lines: where float i of a row lies. Threads 16 bytes apart need no gaps.
__host__ __device__ constexpr int line_place(int stride, int i) {
    return line_cells(stride) == 4 ? i : staged_place(i);
}

/// Lines: floats from row to row of a stage, an odd multiple of 16 bytes, so
/// that copies of 8 rows with 4 columns of each are to different banks. A
/// thread reads whole 16 bytes, past its last cell.
__host__ __device__ constexpr int line_pitch(int steps, int stride) {
    const int cells = line_cells(stride);
    const int read = (line_lanes - 1) * cells + round_up(cells + steps - 1, 4);
    const int floats = round_up(line_place(stride, read - 1) + 1, 4);
    return floats + (floats % 8 == 0 ? 4 : 0);
}

/// Lines: floats from thread to thread of the sums of one channel, an odd
/// multiple of 16 bytes.
__host__ __device__ constexpr int line_sums_pitch(int stride) {
    const int columns = line_cells(stride) * stride;
    return columns + (columns % 8 == 0 ? 4 : 0);
}

/// Lines: shared memory of a warp, in floats: two stages, and then its sums.
__host__ __device__ constexpr int line_floats(
        int steps, int stride, int channels) {
    const int stages = 2 * line_outputs
            * (line_pitch(steps, stride) + tap_floats(steps, stride, channels));
    const int sums = channels * line_lanes * line_sums_pitch(stride);
    return stages > sums ? stages : sums;
}

// In cut.cpp: host arithmetic.

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
/// Floats of the weights as the first kernel gathers them.
int64_t gathered_floats(const problem_shape &);
/// Whether there is one spatial axis, which the kernels of line.cu take.
bool is_line(const problem_shape &);
/// Along an axis of src: the v that it has, src + pad being v * stride + phase.
int all_cells_of(const window_axis &);

// Each sets what the shape says of its kernel, whose blocks may have so much shared memory.
launch_grid cut_tiles(problem_shape &, int64_t images, int64_t most_bytes);
launch_grid cut_lines(problem_shape &, int64_t images, int64_t multiprocessors,
        int64_t most_bytes);

// In tile.cu, for one spatial axis in line.cu.
/// gathered[o][kd][kh][t][phase][i], of weights; `count` floats.
using gather_kernel = void(
        const float *weights, float *gathered, problem_shape, int64_t count);
gather_kernel *gather_kernel_of(const problem_shape &);
using data_kernel = void(const float *diff_dst, const float *gathered,
        const float *weights, float *diff_src, problem_shape);
data_kernel *tile_kernel_of(const problem_shape &);
data_kernel *line_kernel_of(const problem_shape &);

} // namespace gradnn::gpu::few_channels
