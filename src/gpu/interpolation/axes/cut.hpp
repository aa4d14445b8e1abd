// How interpolation.gpu_axes cuts a problem: the tile of a layer, the layers of a run,
// the threads of a block, and where a layer lies in shared memory. Host arithmetic;
// the kernel reads its result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "axis_map.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/interpolation/layered_shape.hpp"
#include "gpu/interpolation/padded_taps.hpp"
#include "gpu/interpolation/spans.hpp"

#ifdef __CUDACC__
#define GRADNN_HOST_DEVICE __host__ __device__
#else
#define GRADNN_HOST_DEVICE
#endif

namespace gradnn::gpu::interpolation::axes {

/// Elements of a layer of diff_src that a thread has, or half as many.
GRADNN_HOST_DEVICE constexpr int outputs_of_thread(int sum_bytes) {
    return sum_bytes == 8 ? 4 : 8;
}
/// Rows of a volume whose columns a thread adds up at the same time.
template <typename Sum>
constexpr int rows_together = sizeof(Sum) == 8 ? 2 : 4;
/// Of a block, and of an SM, for which the registers must do.
constexpr int most_threads = 256;
constexpr int resident_threads = 768;
/// Of an element of diff_src along the columns: their weights are in registers.
constexpr int most_taps = 16;
/// Stages in shared memory, each with one layer of diff_dst or several; all but one of
/// them on their way.
constexpr int stage_count = 4;
/// What is copied at once, from multiples of it to multiples of it.
constexpr int piece_bytes = 16;
/// Of a stage that a thread copies, at most.
GRADNN_HOST_DEVICE constexpr int pieces_of_thread(bool volume) {
    return volume ? 4 : 6;
}

/// Where the rows of a tile of a layer, or of several layers that follow each other in
/// memory, lie in their stage: as in memory, at distances that differ from those in memory by multiples of 16 bytes, so that a piece of 16
/// bytes in memory is one in the stage.
struct stage_layout {
    int32_t layers = 1; ///< several where their rows are one segment
    int32_t rows = 1; ///< segments of a group: 1 where its rows are one
    int32_t segment_pieces = 1;
    int32_t thread_pieces = 1; ///< at most, of a thread
    uint32_t row_bytes = 0; ///< distances
    uint32_t group_bytes = 0;
    uint32_t bytes = 0;
    uint32_t reach
            = 0; ///< bytes in memory, from its first to the last one's end
};

/// Where the taps of an output along the rows begin in the block's sums, how many
/// there are and where their weights are.
struct alignas(16) tap_place {
    int32_t start;
    int32_t count;
    int32_t weights;
    int32_t unused;
};

/// A tile is so many groups, source rows and neighbouring elements of a source row,
/// and the part of a layer of diff_dst that feeds them.
struct work_shape : layered_shape {
    int32_t tile_groups = 1;
    int32_t tile_rows = 1;
    int32_t tile_width = 1; ///< elements
    int32_t row_tiles = 1;
    int32_t width_tiles = 1;
    int32_t run_layers = 1;
    int32_t runs = 1;
    int64_t group_tiles = 1;
    int64_t passes = 1; ///< tiles of groups that a block goes through
    int32_t band = 1; ///< rows of diff_dst of a tile, at most
    int32_t outputs = 1; ///< of a thread
    int32_t sum_rows
            = 1; ///< of sums over the columns, with room for all threads
    int32_t most_row_taps = 1;
    int32_t row_taps = 0; ///< room for the weights of a row
    stage_layout stage;
    int32_t lets_start = 0; ///< let_later_work_start
};

/// What the search knows beside the shape.
struct search_facts {
    bool volume = false;
    int taps = 1; ///< that the kernel has along the columns
    int element_bytes = 4;
    int sum_bytes = 4;
    int registers = 80; ///< of a thread
    int64_t shared_bytes = 0; ///< that a block may have
    int64_t multiprocessors = 1;
};

struct work_cut {
    work_shape shape;
    int threads = 0; ///< 0: there is no cut
    int64_t shared_bytes = 0;
    int64_t blocks = 0;
    int64_t resident = 1; ///< blocks of a multiprocessor
    double cycles = 0; ///< an estimate
    std::vector<dst_range> row_spans; ///< of diff_dst, by row tile
};

/// The cut of the lowest estimate.
class cut_search {
public:
    /// `first`: of the taps along the columns; maps of the axis of layers and of rows.
    cut_search(const layered_shape &problem, const search_facts &facts,
            const std::vector<int32_t> &first, const detail::axis_map &layers,
            const detail::axis_map &rows);

    const work_cut &best() const { return best_; }

private:
    void try_width(int64_t tile_width, int threads);
    void try_tile(int64_t tile_rows, int64_t tile_groups);
    void try_stage(work_cut made, int64_t layers);
    bool lay_out_stage(work_shape &shape, int64_t layers) const;
    void try_runs(work_cut &made);
    void keep_if_best(const work_cut &made, int64_t run_layers, int64_t passes);

    const layered_shape &problem_;
    const search_facts &facts_;
    const std::vector<int32_t> &first_;
    const detail::axis_map &layers_;
    const detail::axis_map &rows_;
    int threads_ = 0;
    int64_t tile_width_ = 1;
    int outputs_ = 1; ///< of a thread
    int64_t staged_elements_ = 1; ///< of a row of a tile, at most
    double staged_share_ = 1; ///< of a row, by all tiles of its width
    work_cut best_;
};

} // namespace gradnn::gpu::interpolation::axes

#undef GRADNN_HOST_DEVICE
