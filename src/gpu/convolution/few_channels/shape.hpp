// Gradient of src with one to four channels: what its kernels are told, and who
// starts them. See few_channels.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/rounding.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

struct few_axis {
    int src = 1;
    int dst = 1;
    int kernel = 1;
    int stride = 1;
    int pad = 0;
    int first = 0; ///< the v of the first position of src
};

struct few_shape {
    int channels = 1;
    int outputs = 1;
    few_axis axes[3];
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
__host__ __device__ constexpr int few_place_of(int i) {
    return i + i / 32 * 4;
}

/// Weights of a window row, whole 16 bytes.
__host__ __device__ constexpr int few_taps_of(
        int steps, int stride, int channels) {
    return round_up(steps * stride * channels, 4);
}

/// Tiles: a block's threads, and the output channels of a stage.
constexpr int few_tile_threads = 256;
constexpr int few_tile_outputs = 4;

/// Tiles: neighbouring v of a thread, whole 16 bytes: 16 columns where they can
/// be.
__host__ __device__ constexpr int few_tile_cells(int stride) {
    return stride < 4 ? 16 / stride : 4;
}

/// Lines: threads along a row, which are a warp, the warps of a block at most,
/// and the output channels of a stage: in NXC 32 bytes, what memory gives at
/// least.
constexpr int few_line_lanes = 32;
constexpr int few_line_most_ways = 8;
constexpr int few_line_outputs = 8;

/// Lines: neighbouring v of a thread.
__host__ __device__ constexpr int few_line_cells(int stride) {
    return stride < 4 ? 8 : 4;
}

/// Lines: where float i of a row lies. Threads 16 bytes apart want no gaps.
__host__ __device__ constexpr int few_line_place(int stride, int i) {
    return few_line_cells(stride) == 4 ? i : few_place_of(i);
}

/// Lines: floats from row to row of a stage, an odd multiple of 16 bytes, so
/// that copies of 8 rows with 4 columns of each are to different banks. A
/// thread reads whole 16 bytes, past its last cell.
__host__ __device__ constexpr int few_line_pitch(int steps, int stride) {
    const int cells = few_line_cells(stride);
    const int read
            = (few_line_lanes - 1) * cells + round_up(cells + steps - 1, 4);
    const int floats = round_up(few_line_place(stride, read - 1) + 1, 4);
    return floats + (floats % 8 == 0 ? 4 : 0);
}

/// Lines: floats from thread to thread of the sums of one channel, an odd
/// multiple of 16 bytes.
__host__ __device__ constexpr int few_line_sums_pitch(int stride) {
    const int columns = few_line_cells(stride) * stride;
    return columns + (columns % 8 == 0 ? 4 : 0);
}

/// Lines: shared memory of a warp, in floats: two stages, and then its sums.
__host__ __device__ constexpr int few_line_floats(
        int steps, int stride, int channels) {
    const int stages = 2 * few_line_outputs
            * (few_line_pitch(steps, stride)
                    + few_taps_of(steps, stride, channels));
    const int sums = channels * few_line_lanes * few_line_sums_pitch(stride);
    return stages > sums ? stages : sums;
}

struct few_grid {
    unsigned blocks = 0;
    unsigned threads = 0;
    size_t shared_bytes = 0;
};

struct few_pointers {
    const float *diff_dst = nullptr;
    const float *weights = nullptr;
    float *diff_src = nullptr;
    float *gathered = nullptr; ///< weights in the workspace
};

// In tile.cu.
/// gathered[o][kd][kh][t][phase][i]; `count` floats.
void launch_few_weights(const few_shape &, int64_t count, const few_pointers &,
        const launch_stream &);
/// Lets blocks of the device that is current have so much shared memory.
void prepare_few_tile(const few_shape &, size_t most_shared_bytes);
void launch_few_tile(const few_shape &, const few_grid &, const few_pointers &,
        const launch_stream &);

// In line.cu; the same for one spatial axis.
void prepare_few_line(const few_shape &, size_t most_shared_bytes);
void launch_few_line(const few_shape &, const few_grid &, const few_pointers &,
        const launch_stream &);

} // namespace gradnn::gpu
