// Depthwise, any window: how the work of the kernels is cut that walk D and H tap
// by tap. See data_ncx.cu, weights_ncx.cu, data_nxc.cu and weights_nxc.cu.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"

namespace gradnn::gpu::depthwise::any {

/// NCX: a block's tile, in written positions, and the read rows it stages in
/// shared memory. A plane is one channel of one image; of the weights gradient,
/// one depth of one image.
struct tile_shape {
    int planes = 1;
    int depths = 1; ///< written
    int rows = 1;
    int groups = 1; ///< of 8 columns
    int repeats = 1;
    int read_depths = 1; ///< staged
    int read_rows = 1;
    int pitch = 4; ///< elements of a staged row: an odd multiple of 16 bytes
    int kernel_elements
            = 0; ///< of the weights, staged too except for their gradient
    int columns = 1; ///< of them that may be read
    int vectors = 1; ///< to be copied of a row
    int plane_tiles = 1;
    int depth_tiles = 1;
    int row_tiles = 1;
    int column_tiles = 1;
    int threads = 32;
    int dense_load = 1; ///< elements an access to read: 4, 2 or 1
    int dense_store = 1; ///< elements an access to written: 16 bytes, 2 or 1
    small_divider by_vectors, by_groups, by_row_blocks, by_depths, by_read_rows,
            by_read_depths;

    __host__ __device__ constexpr int staged_rows() const {
        return planes * read_depths * read_rows;
    }
    /// Neighbouring threads have two rows, where there are two; a thread has
    /// `repeats` rows, so far apart.
    __host__ __device__ constexpr int paired() const {
        return rows > 1 ? 2 : 1;
    }
    __host__ __device__ constexpr int row_blocks() const {
        const int block = paired() * repeats;
        return (rows + block - 1) / block;
    }
    __host__ __device__ constexpr int items() const {
        return planes * depths * row_blocks() * groups * paired();
    }
};

/// NXC: a block's threads, channels first.
struct block_shape {
    int vector = 1; ///< channels of a thread
    int lanes = 1; ///< threads along the channels
    int groups = 1; ///< of 8 columns
    int rows = 1;
    int depths = 1;
    int repeats = 1; ///< so many times, further down
    int channel_tiles = 1;
    int column_tiles = 1;
    int row_tiles = 1;
    int depth_tiles = 1;
};

/// The weights gradient: how it is cut.
struct weights_parts {
    int window_rows = 1; ///< NCX: rows of the window that a thread sums
    int jobs = 1; ///< pieces of the window
    int block_jobs = 1; ///< NXC: of them in a block
    int lanes = 1; ///< NXC: threads that share the rows of a part
    int segments = 1; ///< NXC: of a row of dst
    int segment_columns = 8;
    int64_t units = 1; ///< tiles (NCX) or segments of rows of dst (NXC)
    int64_t parts = 1;
};

/// NCX: all of it.
struct tiles_cut {
    static constexpr const char *takes
            = "NCX, any window of which tiles of rows fit in shared memory, "
              "less than 2^31 tiles";
    tile_shape tile;
    weights_parts weights;

    int64_t parts() const { return weights.parts; }
};

/// NXC: all of it.
struct blocks_cut {
    static constexpr const char *takes
            = "NXC, any window: threads along the channels, less than 2^31 "
              "blocks of them";
    block_shape block;
    weights_parts weights;
    /// Data: the weights in the sums' type, as rows of taps without gaps.
    int64_t data_sums = 0;

    int64_t parts() const { return weights.parts; }
};

// In cut.cpp.
/// False where the window is too large for shared memory, or the tensors are.
bool cut(tiles_cut &, const problem_facts &, bool vectors);
/// The work is cut the same way with vectors and without, and so sums have the same
/// order.
bool cut(blocks_cut &, const problem_facts &, bool vectors);

/// Elements before and after a staged row that copies of whole vectors may
/// spoil.
constexpr int row_slack = 4;

/// Of a block: rows and weights in the type of the sums, addresses of rows.
constexpr size_t shared_bytes_of(const tile_shape &tile, size_t sum_bytes) {
    const auto rows = static_cast<size_t>(tile.staged_rows());
    return (rows * static_cast<size_t>(tile.pitch) + row_slack
                   + static_cast<size_t>(tile.kernel_elements))
            * sum_bytes
            + rows * sizeof(int64_t);
}

/// NCX, gradient of the weights: rows of the window that a thread sums, where it
/// sums so many taps of each.
constexpr int window_rows_of(int taps) {
    return taps == 8 ? 4 : taps == 4 ? 3 : taps;
}

// In data_ncx.cu, weights_ncx.cu, data_nxc.cu and weights_nxc.cu.
launcher data_launcher(const launch_facts &, const tiles_cut &);
launcher weights_launcher(const launch_facts &, const tiles_cut &);
launcher data_launcher(const launch_facts &, const blocks_cut &);
launcher weights_launcher(const launch_facts &, const blocks_cut &);

} // namespace gradnn::gpu::depthwise::any
