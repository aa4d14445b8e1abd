// Convolution with groups of few channels on the GPU: what its kernels are
// told, and who starts them. See narrow_groups.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/convolution/launcher.hpp"
#include "gpu/device/divider.hpp"

namespace gradnn::detail {
struct convolution_problem;
} // namespace gradnn::detail

namespace gradnn::gpu::narrow_groups {

/// Channels of one group that a thread takes at a time.
constexpr int chunk_channels = 4;
/// Neighbouring positions of a thread.
constexpr int run_positions = 8;
/// Threads of a block of the data kernel. A multiprocessor holds two blocks: threads
/// of f64 have twice the registers.
__host__ __device__ constexpr int data_threads(int64_t element_bytes) {
    return element_bytes == 8 ? 128 : 256;
}
/// Blocks of the weights gradient that a multiprocessor holds.
__host__ __device__ constexpr int weights_blocks(int64_t element_bytes) {
    return element_bytes == 8 ? 2 : 4;
}
/// Warps of a block of the weights gradient, at most: the three rows of a 3x3
/// window.
constexpr int weights_warps = 3;

/// One spatial axis. Written position x meets at tap e, of those that may,
/// read position x * stride + base + e * dilation; with `to_src` (below)
/// (x + base + e * dilation) / stride, where that is whole. Taps are counted so
/// that what they read ascends: with `to_src` from the window's end.
struct window_axis {
    int read = 1;
    int written = 1;
    int kernel = 1;
    int stride = 1;
    int dilation = 1;
    int base = 0;
    int tap_step = 1; ///< from one tap of a position to its next
    int move = 1; ///< read positions from one to the next
};

/// The channels of a tensor, in chunks of 4 of one group each.
struct channel_chunks {
    int of_group = chunk_channels;
    int chunks = 1; ///< of a group
    int pitch = chunk_channels; ///< from group to group
    int last = 0; ///< where a chunk begins at most: none ends beyond the tensor

    __host__ __device__ int first(int group, int chunk) const {
        const int begin = group * pitch + chunk * chunk_channels;
        return begin < last ? begin : last;
    }
    /// The number, within its group, of a chunk's channel i; -1 where that channel
    /// belongs to another group or chunk, or does not exist.
    __host__ __device__ int number(int group, int chunk, int i) const {
        const int channel = first(group, chunk) + i - group * pitch;
        return channel >= chunk * chunk_channels && channel < of_group ? channel
                                                                       : -1;
    }
};

/// forward: reads src, writes dst. backward_data: reads dst, writes src.
/// backward_weights: `read` is src and `written` dst, which is read too.
///
/// The last axis is that along which a thread has its positions: W of NXC, H of
/// planes (NCX), whose axes are ordered D, W, H. Strides are of elements.
struct problem_shape {
    window_axis axes[3];
    int64_t read_strides[5] = {}; // N, C, axes
    int64_t written_strides[5] = {};
    int64_t weights_strides[6] = {}; // group, written, read channel, axes
    bool planes = false;
    bool to_src = false; ///< backward_data
    channel_chunks read, written;
    /// Threads' shares of the channels: a chunk of written, and of
    /// backward_weights a chunk of read with it. `lanes` neighbouring threads
    /// have as many units; of planes 1.
    int units = 1;
    int lanes = 1;
    int unit_tiles = 1;
    int run_step = 1; ///< written positions from one of a thread to the next
    int run_move = 1; ///< read positions
    int phases = 1; ///< of the last axis: first positions of written
    uint32_t items = 1; ///< runs of one unit
    exact_divider by_down, by_groups, by_phases, by_deep, by_lanes, by_tiles;
};

/// The weights gradient: how its sums are cut.
struct weights_parts {
    int taps = 1; ///< along the last axis that a thread sums
    int chunks = 1; ///< of such
    int jobs = 1; ///< pieces of the window
    int block_jobs = 1; ///< of a block, a warp each
    int job_blocks = 1;
    uint32_t parts = 1; ///< partial sums of a weight
    // Numbers of weights (weights_sum.cuh): how many there are, positions of the window,
    // channels of dst, and from a tap to the next one along each axis.
    int64_t weights = 1;
    int window = 1;
    int channels = 1;
    int tap_numbers[3] = {};
};

/// Places of the weights of one tap along the last axis, of four channels read.
__host__ __device__ constexpr int weights_unit_lanes(bool planes) {
    return planes ? 1 : 32;
}

/// Weights in the data kernel's order.
inline int64_t gathered_weights(const problem_shape &shape) {
    int64_t count = int64_t {shape.unit_tiles} * shape.read.chunks
            * chunk_channels * chunk_channels
            * weights_unit_lanes(shape.planes);
    for (const window_axis &axis : shape.axes)
        count *= axis.kernel;
    return count;
}

// One file each. The types are the problem's, and src and dst those that the kernels are
// given; the workspace is of the type of sums, at a multiple of 16 bytes.
launcher data_launcher(
        const detail::convolution_problem &, const problem_shape &);
launcher weights_launcher(const detail::convolution_problem &,
        const problem_shape &, const weights_parts &);

} // namespace gradnn::gpu::narrow_groups
