// How interpolation.gpu_layers cuts a problem: the tile of a layer, the layers of
// a run, the threads of a block. Host arithmetic; the kernel reads its result.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "gpu/device/divider.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/device/shared_out.hpp"
#include "gpu/interpolation/spans.hpp"
#include "gpu/runtime/multiprocessor.hpp"
#include "kernel/axis_map.hpp"

#ifdef __CUDACC__
#define GRADNN_HOST_DEVICE __host__ __device__
#else
#define GRADNN_HOST_DEVICE
#endif

namespace gradnn::gpu::interpolation::layers {

/// Elements of a layer of diff_dst that a thread has: the more, the fewer
/// instructions an element.
GRADNN_HOST_DEVICE constexpr int elements_of_thread(
        int element_bytes, int vector) {
    if (element_bytes == 8) return 4;
    return element_bytes == 2 && vector > 1 ? 16 : 8;
}

/// Whether layers of diff_dst that are on their way to a thread wait in shared memory,
/// not in registers. 16-bit types were slower with it (README.md).
GRADNN_HOST_DEVICE constexpr bool is_queued(int element_bytes) {
    return element_bytes > 2;
}
/// How many layers are on their way.
GRADNN_HOST_DEVICE constexpr int layers_ahead(int element_bytes) {
    return is_queued(element_bytes) ? 4 : 2;
}

/// Bytes in shared memory of what is on its way to a block.
GRADNN_HOST_DEVICE constexpr int queue_bytes(
        int element_bytes, int vector, int threads) {
    return is_queued(element_bytes) ? layers_ahead(element_bytes) * threads
                    * elements_of_thread(element_bytes, vector) * element_bytes
                                    : 0;
}

/// Of a block. The largest tile has 3,072 elements or more (f64: 2,048).
GRADNN_HOST_DEVICE constexpr int most_threads(int element_bytes, int vector) {
    if (is_queued(element_bytes)) return 512;
    return vector > 1 ? 256 : 384;
}

/// Of an SM, for which the registers must do: one that is on its way must not be put
/// aside, since that waits for it.
GRADNN_HOST_DEVICE constexpr int resident_threads(int element_bytes) {
    return is_queued(element_bytes) ? 1024 : 768;
}

/// Sums that go through shared memory at once.
template <typename Sum>
constexpr int sums_at_once = 16 / static_cast<int>(sizeof(Sum));

/// Room for weights is a multiple of it, and twice it where they are read in
/// registers.
constexpr int64_t weights_at_once = 4;

/// Where the taps of an output, or of a row, start in shared memory, how many
/// there are and where their weights are; and where the output is written,
/// counted from its row.
struct alignas(16) tap_place {
    int32_t start;
    int32_t count;
    int32_t weights;
    int32_t out;
};

/// The word that has the first channel of a column.
GRADNN_HOST_DEVICE constexpr int first_element(
        int column, int channels, int vector) {
    return column * channels / vector * vector;
}

/// A layer of a group is rows of columns of channels (an image has one row to a
/// layer). Pitches in elements. A tile is so many groups, source rows, source
/// columns and channels, and the part of a layer of diff_dst that feeds them.
struct work_shape {
    int64_t dst_group_pitch = 0;
    int64_t src_group_pitch = 0;
    int64_t dst_layer_pitch = 0;
    int64_t src_layer_pitch = 0;
    int64_t dst_row_pitch = 0;
    int64_t src_row_pitch = 0;
    int64_t groups = 1;
    int32_t dst_layers = 1;
    int32_t src_layers = 1;
    int32_t dst_rows = 1;
    int32_t src_rows = 1;
    int32_t dst_columns = 1;
    int32_t src_columns = 1;
    int32_t channels = 1; ///< neighbouring elements of a column

    int32_t tile_groups = 1;
    int32_t tile_rows = 1;
    int32_t tile_columns = 1;
    int32_t tile_channels = 1;
    int32_t run_layers = 1;
    exact_divider row_tiles;
    exact_divider column_tiles;
    exact_divider channel_tiles;
    exact_divider runs;
    int32_t band = 1; ///< rows of diff_dst of a tile, at most
    int32_t pitch = 1; ///< elements between such rows in shared memory
    /// The rows of a tile are whole and lie in shared memory as in diff_dst, one right
    /// after the other, so that words may go beyond the end of a row.
    int32_t as_they_lie = 0;
    int32_t layer_elements = 1; ///< of diff_dst, as they lie
    /// Words of a tile: stretches, which are rows, or groups as they lie.
    int32_t tile_words = 1;
    exact_divider stretch_words;
    exact_divider bands; ///< by `band`
    exact_divider columns_of_channels; ///< by `tile_channels`
    exact_divider rows_of_tile; ///< by `tile_rows`
    /// Of volumes: columns are resampled before rows.
    int32_t columns_first = 0;
    int32_t second_pitch = 1; ///< elements of a row in the second line
    int32_t most_column_taps = 0;
    int32_t most_row_taps = 0;
    int32_t column_taps = 0; ///< room for the weights of a column
    int32_t row_taps = 0; ///< and of a row
    int32_t line_elements = 0; ///< of the buffer of a layer's sums
    int32_t second_elements = 0; ///< and of what is made of them first
    /// Neighbouring outputs that are written at once: channels of a column, columns
    /// where a tile has one channel, or elements of a row where rows come last.
    int32_t width = 1;
    int32_t columns_width = 1; ///< and that are resampled along columns at once
    int32_t zeros_width = 1; ///< and where nothing feeds a layer
    shared_out row_cells, column_cells, zero_cells; ///< of whole tiles
    int32_t lets_start = 0; ///< let_later_work_start
};

/// What the search knows beside the shape.
struct search_facts {
    bool volume = false;
    bool as_they_lie = false; ///< the only tiles that are tried
    int vector = 1; ///< elements in a word
    int elements = 8; ///< of a thread
    int most_threads = 384; ///< of a block
    int sum_bytes = 4;
    int element_bytes = 4;
    int registers = 64; ///< of a thread
    int64_t shared_bytes = 0; ///< that a block may have
    int64_t multiprocessors = 1;
    multiprocessor sm;
    /// Elements that divide all distances of words of diff_src, between columns and
    /// between rows: 1, 2 or 4.
    int written_vector = 1;
    int written_row_vector = 1;
};

struct work_cut {
    work_shape shape;
    int threads = 0; ///< 0: there is no cut
    int64_t shared_bytes = 0;
    int64_t blocks = 0;
    int64_t resident = 1; ///< blocks of a multiprocessor
    double cycles = 0; ///< an estimate
    std::vector<dst_range> column_spans, row_spans;
};

/// The cut of the lowest estimate.
class cut_search {
public:
    /// Maps of the axis of layers, of rows and of columns.
    cut_search(const work_shape &problem, const search_facts &facts,
            const detail::axis_map &layers, const detail::axis_map &rows,
            const detail::axis_map &columns);

    const work_cut &best() const { return best_; }

private:
    void try_columns(int64_t tile_columns, int64_t tile_channels);
    bool try_tile(int64_t tile_rows, int64_t tile_groups);
    int widest_of(int neighbours, int written_vector) const;
    int64_t tiles_of(const work_shape &shape) const;
    void try_runs(work_cut &made, int64_t tiles);
    /// Instructions of a block, for one layer each: of diff_dst, of diff_src, and of
    /// diff_src where nothing feeds it.
    struct layer_issues {
        double dst = 0;
        double src = 0;
        double empty = 0;
    };
    layer_issues issues_of(const work_cut &made) const;
    void keep_if_best(const work_cut &made, const layer_issues &issues,
            int64_t run_layers, int64_t blocks);

    const work_shape &problem_;
    const search_facts &facts_;
    const detail::axis_map &layers_;
    const detail::axis_map &rows_;
    const detail::axis_map &columns_;
    bool columns_first_ = false;
    work_shape columns_cut_; ///< cut along columns and channels
    std::vector<dst_range> column_spans_;
    int64_t fed_layers_ = 1; ///< of diff_src
    work_cut best_;
};

} // namespace gradnn::gpu::interpolation::layers

#undef GRADNN_HOST_DEVICE
