// Depthwise windows along W alone, in NCX of f32 and f64: how the work of the
// two kernels is cut. See data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"

namespace gradnn::gpu::depthwise::rows_ncx {

/// Neighbouring columns of a thread, of written or of dst: an odd number of
/// vectors of 16 bytes, so that threads beside each other meet no bank
/// conflicts.
__host__ __device__ constexpr int run_of(int64_t element_bytes) {
    return element_bytes == 8 ? 10 : 12;
}
constexpr int chunk_taps = 8; ///< of a chunk
/// Chunks of the window at most, and those whose sums a thread of the weights'
/// kernel has.
constexpr int most_chunks = 8;
constexpr int weights_chunks = 4;
/// Threads of a block; of the weights' kernel those of a job, and of both.
constexpr int data_threads = 256;
constexpr int weights_threads = 128;
constexpr int weights_block_threads
        = weights_threads * (most_chunks / weights_chunks);
/// Blocks of the data kernel that a multiprocessor's registers hold, and of the
/// weights' with two jobs.
constexpr int data_resident(int64_t element_bytes) {
    return element_bytes == 8 ? 3 : 4;
}
constexpr int weights_resident(int64_t element_bytes) {
    return element_bytes == 8 ? 2 : 4;
}

/// What a block notes of a row: where it begins in both tensors.
constexpr int64_t row_note_bytes = 16;
/// Buffers of the weights' kernel, and of each what the block notes of the tile.
constexpr int tile_buffers = 2;
constexpr int64_t tile_note_bytes = 12;

/// A row of a tile on its way: so many copies of `each` elements.
struct row_copies {
    int each = 1;
    int count = 1;
    small_divider by;
};

/// A tile is some rows of a channel (in all images and depths), or one piece of
/// each. A block of the data kernel has a tile, one of the weights' kernel every
/// `parts`-th tile of a channel.
struct work_cut {
    static constexpr const char *takes
            = "f32 and f64 in NCX, windows of 3 to 64 points along W alone "
              "with strides and dilations of 1 and pads smaller than the "
              "window, channels with rows enough";
    int lead = 0; ///< zeros before the window's first tap
    int chunks = 1; ///< of the window, a thread's
    int jobs = 1; ///< weights: threads with the same columns, other chunks
    int groups = 1; ///< of a piece: a thread's columns each
    int pieces = 1; ///< of a row
    int channel_rows = 1;
    int rows = 1; ///< of a tile
    int row_tiles = 1;
    int pitch = 1; ///< elements from a held row of read to the next
    int threads = 32; ///< of a job
    int parts = 1; ///< weights: blocks of a channel
    // Whether rows are whole vectors, of 16 bytes, that begin at multiples of
    // that where the tensor does.
    bool wide_read = false;
    bool wide_written = false;
    size_t shared_bytes = 0;
    small_divider by_groups;

    /// Columns of a piece, and those of read that they meet.
    __host__ __device__ constexpr int columns(int run) const {
        return groups * run;
    }
    __host__ __device__ constexpr int columns_met(int run) const {
        return groups * run + jobs * chunks * chunk_taps;
    }
    int64_t data_blocks(int64_t channels) const {
        return channels * row_tiles * pieces;
    }
};

// In cut.cpp.
/// NCX of f32 and f64, if a channel has enough rows. False where there are too many
/// tiles or blocks.
bool cut(work_cut &, const problem_facts &);
/// How rows of so many columns are copied, `whole` vectors of 16 bytes or
/// elements.
row_copies row_copies_of(int columns, int64_t element_bytes, bool whole);

// In data.cu and weights.cu, for f32 and f64.
launcher data_launcher(const launch_facts &, const work_cut &);
launcher weights_launcher(const launch_facts &, const work_cut &);

} // namespace gradnn::gpu::depthwise::rows_ncx
