// Depthwise windows along W alone, in NCX on tensor cores: how the work of the
// two kernels is cut. See data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/shape.hpp"

namespace gradnn::gpu::depthwise::lines {

/// Columns of written that a warp takes at a time, in data in tiles of 128.
constexpr int warp_columns = 512;
constexpr int tile_columns = 128;
constexpr int block_warps = 8; ///< of a block
/// The taps of a window are fewer than this.
constexpr int most_taps = 64;
/// Matrices of sixteen rows or columns that hold so many taps (with the zeros
/// before the first) for eight neighbouring columns.
__host__ __device__ constexpr int steps_of_taps(int taps) {
    return (taps + 7 + 15) / 16;
}

/// Each block has one channel; of the n warps of a channel each has every n-th
/// piece of its rows, in all images.
struct work_cut {
    static constexpr const char *takes
            = "groups of one channel, bf16 and f16 in NCX without gaps, "
              "weights alike, windows of 16 to 63 points along W alone with "
              "strides and dilations of 1 and pads smaller than the window, 64 "
              "columns and more";
    int pieces = 1; ///< of a row
    int parts = 1; ///< blocks of a channel
    int lead = 0; ///< zeros before the window's first tap
};

} // namespace gradnn::gpu::depthwise::lines
