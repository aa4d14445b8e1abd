// How interpolation.gpu_matrices cuts a problem into tiles. Host arithmetic; the
// kernel reads its result.
#pragma once

#include <cstdint>
#include <vector>

#include "axis_map.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/interpolation/spans.hpp"

#ifdef __CUDACC__
#define GRADNN_HOST_DEVICE __host__ __device__
#else
#define GRADNN_HOST_DEVICE
#endif

namespace gradnn::gpu::interpolation::matrices {

constexpr int warps = 4;
constexpr int threads = 32 * warps;

/// Source rows of a tile at most, and rows of diff_dst of one product: the sides
/// of a matrix of the tensor cores.
constexpr int matrix_side = 16;

/// Neighbouring elements of a row that a thread loads.
constexpr int segment = 8;

/// A strip is what a warp multiplies at a time: 8 segments. A warp has two.
constexpr int strip_segments = 8;
constexpr int strips = 2;
constexpr int segments_of_tile = warps * strips * strip_segments;

/// Where slot `slot` of a row of sums lies in shared memory. A gap after every 32
/// keeps threads that read every other, every fourth ... slot apart.
GRADNN_HOST_DEVICE constexpr int place_of(int slot) {
    return slot + (slot >> 5);
}
/// Words of a row of sums: 2 more than a multiple of 32, so that the eight rows
/// that a warp writes at once lie in different banks.
constexpr int line_pitch
        = round_up(place_of(segments_of_tile * segment), 32) + 2;

/// Threads that share the rows of a column where a tile has few columns.
constexpr int few_outputs_parts = 4;

/// x / by for x and by below 2^16.
struct small_quotient {
    uint32_t magic = 0; ///< 0 for by == 1

    small_quotient() = default;
    explicit small_quotient(int64_t by)
        : magic(by == 1 ? 0
                        : static_cast<uint32_t>((int64_t {1} << 32) / by + 1)) {
    }
#ifdef __CUDACC__
    __device__ int of(int x) const {
        return magic == 0
                ? x
                : static_cast<int>(__umulhi(static_cast<uint32_t>(x), magic));
    }
#endif
};

/// Source rows first .. and the rows of diff_dst that feed them; `matrix` counts
/// the matrices of weights before those of this tile.
struct row_tile {
    int32_t first_row = 0;
    int32_t rows = 0;
    dst_range span;
    int32_t matrix = 0;
    int32_t matrices = 0;
};

/// The problem and its tiles. Pitches in elements. A row is columns of channels
/// (NCX: one), element by element.
struct work_shape {
    int64_t dst_group_pitch = 0;
    int64_t src_group_pitch = 0;
    int64_t src_row_pitch = 0;
    int64_t dst_row_pitch = 0;
    int64_t groups = 1;
    int32_t dst_rows = 1;
    int32_t src_rows = 1;
    int32_t dst_columns = 1;
    int32_t src_columns = 1;
    int32_t channels = 1;
    int32_t equal_rows = 0; ///< rows are not resampled: one matrix serves all

    int32_t tile_groups = 1;
    int32_t tile_columns = 1; ///< of diff_src
    int32_t tile_channels = 1;
    int32_t row_tiles = 1;
    int32_t run_tiles = 1; ///< tiles of rows that a block walks down
    int32_t column_tiles = 1;
    int32_t channel_tiles = 1;
    int32_t runs = 1;
    int32_t group_segments = 1; ///< of a row of one group in a tile
    int32_t row_parts = 1; ///< threads that share the rows of a column
    int32_t most_taps = 1; ///< of a column
    int32_t weights_pitch = 1; ///< of the columns' weights
    int32_t lets_start = 0; ///< let_later_work_start
    small_quotient by_outputs, by_group_outputs, by_channels, by_group_segments,
            by_pixel_segments;
};

/// What the search knows of the kernel and of the device.
struct search_facts {
    int vector = 1; ///< elements of a load
    int terms = 1; ///< matrices that make up the weights
    int64_t resident_blocks = 1; ///< of a multiprocessor
    int64_t multiprocessors = 1;
};

struct work_cut {
    work_shape shape; ///< with its tiles
    std::vector<row_tile> row_tiles;
    std::vector<dst_range> column_spans; ///< of diff_dst, by column tile
    int64_t blocks = 0; ///< 0 where no tile is possible
    double cycles = 0; ///< estimate, of the whole problem
};

/// The cut with the lowest estimate. How many rows a tile has, and so the order of
/// the sums, follows from the rows alone.
work_cut find_cut(const work_shape &problem, const search_facts &,
        const detail::axis_map &rows, const detail::axis_map &columns);

/// Matrices of weights that the tiles of a cut need.
int64_t matrices_of(const work_cut &);

} // namespace gradnn::gpu::interpolation::matrices

#undef GRADNN_HOST_DEVICE
