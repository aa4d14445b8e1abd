// Depthwise in NXC on tensor cores: how the work of the two kernels is cut. See
// data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"

namespace gradnn::gpu::depthwise::diagonals {

/// Neighbouring channels, of 16 bytes together, that one product of matrices
/// takes.
constexpr int group_channels = 8;
/// Written columns of a tile of the data kernel, and rows of dst of one of the
/// weights' kernel.
constexpr int tile_columns = 8;
constexpr int tile_dst_rows = 4;
/// Stages that lie in shared memory or are on their way there, powers of two;
/// and pairs of rows of read of a stage of the data kernel.
constexpr int data_stage_count = 4;
constexpr int weights_stage_count = 4;
constexpr int stage_steps = 2;
/// The weights' kernel: so many products are added up on tensor cores, which
/// truncate each time, before their sum is added to one in f32; and a warp has at
/// most so many products in all, which is 1024 additions in f32.
constexpr int longest_truncated_chain = 448;
constexpr int64_t longest_warp_chain = 1024 * longest_truncated_chain;
/// Two barriers for each.
__host__ __device__ constexpr int barriers_bytes(int stages) {
    return 2 * stages * 8;
}

/// Pairs of rows of written that a pair of rows of read meets, or of columns of
/// dst that a column of src meets.
__host__ __device__ constexpr int pairs_of(int size) {
    return (size + 1) / 2;
}
/// Matrices of four taps that a pair of rows of read takes for one of written.
__host__ __device__ constexpr int quads_of(int size) {
    return (2 * size + 3) / 4;
}
/// Warps of a multiprocessor, as many as its registers hold, in one block or
/// more.
__host__ __device__ constexpr int data_warps(int size) {
    return size == 7 ? 16 : 20;
}
constexpr int weights_warps = 16;

/// The data kernel: images are cut into strips of rows. A block has some channels
/// and columns of every `parts`-th strip, and takes a few pairs of its rows of read
/// at a time.
struct data_cut {
    int groups = 1; ///< of eight channels
    int tiles = 1; ///< of columns
    int copy_warps = 1;
    int column_bands = 1;
    int strips = 1; ///< of an image
    int strip_rows = 1; ///< of written
    int parts = 1; ///< blocks that share the strips of all images
    int64_t channel_tiles = 1;
    int pitch = 1; ///< pixels from row to row of read, of 8 channels
    size_t shared_bytes = 0;

    /// Warps that multiply, and all warps of a block.
    __host__ __device__ constexpr int warps() const { return tiles * groups; }
    __host__ __device__ constexpr int all_warps() const {
        return warps() + copy_warps;
    }
    __host__ __device__ constexpr int64_t blocks() const {
        return channel_tiles * column_bands * parts;
    }
    /// Bytes of a row of all groups, and of a stage.
    __host__ __device__ constexpr int row_bytes() const {
        return pitch * groups * 16;
    }
    __host__ __device__ constexpr int stage_bytes() const {
        return 2 * stage_steps * row_bytes();
    }
};

/// The weights' kernel: images are cut into strips of rows of dst. A block has some
/// channels of every `parts`-th strip, and takes 4 * `tiles` of its rows at a time.
struct weights_cut {
    int groups = 1; ///< of eight channels
    int tiles = 1;
    int column_parts = 1; ///< of the columns of src, a warp's each
    int copy_warps = 1;
    int part_columns = 1;
    int strips = 1; ///< of an image
    int strip_stages = 1;
    int parts = 1; ///< blocks that share the strips of all images
    int64_t channel_tiles = 1;
    int src_rows = 1; ///< held, of all stages
    int src_pitch = 1; ///< pixels from row to row, of 8 channels
    int dst_pitch = 1;
    size_t shared_bytes = 0;

    __host__ __device__ constexpr int rows() const {
        return tiles * tile_dst_rows;
    }
    /// Warps that multiply, and all warps of a block.
    __host__ __device__ constexpr int warps() const {
        return groups * tiles * column_parts;
    }
    __host__ __device__ constexpr int all_warps() const {
        return warps() + copy_warps;
    }
    __host__ __device__ constexpr int64_t blocks() const {
        return channel_tiles * parts;
    }
    __host__ __device__ constexpr int src_bytes() const {
        return src_rows * src_pitch * groups * 16;
    }
    __host__ __device__ constexpr int dst_bytes() const {
        return rows() * dst_pitch * groups * 16;
    }
};

/// One of the two has been cut.
struct work_cut {
    static constexpr const char *takes
            = "bf16 and f16 in NXC, weights alike, channels in vectors of 16 "
              "bytes, windows of 5x5 and 7x7 on planes with strides and "
              "dilations of 1 and pads smaller than the window, rows that "
              "fit in shared memory";
    data_cut data;
    weights_cut weights;

    int parts() const { return weights.parts; }
};

// In cut.cpp.
/// NXC of bf16 and f16, channels in vectors of 16 bytes: windows of 5x5 and 7x7,
/// for which the other kernels were slower on an H200 (except 5x5 of 32 columns).
/// False where rows do not fit in shared memory.
bool cut(work_cut &, const problem_facts &);

// In data.cu and weights.cu, for bf16 and f16.
/// Allow the kernels this much shared memory on the current device, before launches.
void prepare_data(
        detail::data_type type, const problem_shape &, size_t shared_bytes);
void prepare_weights(
        detail::data_type type, const problem_shape &, size_t shared_bytes);
launcher data_launcher(const launch_facts &, const work_cut &);
launcher weights_launcher(const launch_facts &, const work_cut &);

} // namespace gradnn::gpu::depthwise::diagonals
