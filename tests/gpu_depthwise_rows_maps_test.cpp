// What the blocks and threads of the depthwise families lines, rows_ncx and rows_nxc
// have: see gpu_cuts/depthwise_tallies.hpp.
#include "gpu_cuts/depthwise_tallies.hpp"

#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"

namespace gradnn::test {
namespace {

void go_through_lines(const lines::work_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const window_axis &along = shape.axes[2];
    const int64_t rows = shape.axes[1].read;
    const int64_t pieces = shape.images * rows * cut.pieces;
    EXPECT_GE(cut.lead, 0);
    EXPECT_GE(lines::steps_of_taps(along.kernel + cut.lead) * 16,
            along.kernel + cut.lead + 7);
    for (int64_t block = 0; block < shape.channels * cut.parts; ++block) {
        const int64_t channel = block / cut.parts;
        const int64_t part = block % cut.parts;
        for (int64_t warp = 0; warp < lines::block_warps; ++warp)
            for (int64_t piece = part * lines::block_warps + warp;
                    piece < pieces; piece += cut.parts * lines::block_warps) {
                int64_t rest = piece;
                const int64_t column
                        = take(rest, cut.pieces) * lines::warp_columns;
                const int64_t row = take(rest, rows);
                EXPECT_LT(column, along.written);
                all.add_run(rest, channel, 0, row, column, lines::warp_columns);
            }
        for (int64_t tap = 0; all.facts.of_weights() && tap < along.kernel;
                ++tap)
            all.sums.add({channel, 0, 0, tap, part});
    }
}

// rows_ncx.

/// What a block has of a channel: rows, or a piece of each.
struct held_tile {
    int64_t first_row, rows, first_column;

    held_tile(const rows_ncx::work_cut &cut, int64_t columns, int64_t row_tile,
            int64_t piece)
        : first_row(row_tile * cut.rows),
          rows(std::min<int64_t>(cut.rows, cut.channel_rows - first_row)),
          first_column(piece * columns) {}
};

/// The rows and columns of the threads of a job.
void add_tile(const rows_ncx::work_cut &cut, tallies &all, int64_t channel,
        const held_tile &tile) {
    const problem_shape &shape = all.facts.shape;
    const int64_t run = rows_ncx::run_of(all.facts.element_bytes());
    for (int64_t item = 0; item < cut.threads; ++item) {
        const int64_t row = divide(item, cut.by_groups);
        if (row >= tile.rows) continue;
        int64_t rest = tile.first_row + row;
        const int64_t h = take(rest, shape.axes[1].read);
        const int64_t d = take(rest, shape.axes[0].read);
        all.add_run(rest, channel, d, h,
                tile.first_column + (item - row * cut.groups) * run, run);
    }
}

void go_through_rows_ncx(const rows_ncx::work_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const int64_t kernel = shape.axes[2].kernel;
    const int64_t bytes = all.facts.element_bytes();
    const int run = rows_ncx::run_of(bytes);
    const int64_t taps = int64_t {cut.chunks} * rows_ncx::chunk_taps;
    EXPECT_GE(cut.jobs * taps, kernel + cut.lead);
    EXPECT_GE(cut.pitch, cut.columns_met(run));
    // Rows, and notes of where they begin, as the kernels have them.
    int64_t shared_bytes = (taps + int64_t {cut.rows} * cut.pitch) * bytes
            + cut.rows * rows_ncx::row_note_bytes;
    if (!all.facts.of_weights()) {
        for (int64_t block = 0; block < cut.data_blocks(shape.channels);
                ++block) {
            int64_t rest = block;
            const int64_t piece = take(rest, cut.pieces);
            const int64_t channel = take(rest, shape.channels);
            add_tile(cut, all, channel, {cut, cut.columns(run), rest, piece});
        }
    } else {
        shared_bytes = std::max(rows_ncx::tile_buffers
                        * (cut.rows
                                        * ((cut.pitch + cut.columns(run))
                                                        * bytes
                                                + rows_ncx::row_note_bytes)
                                + rows_ncx::tile_note_bytes),
                int64_t {cut.jobs} * cut.threads * rows_ncx::chunk_taps
                        * bytes);
        const int64_t units = int64_t {cut.row_tiles} * cut.pieces;
        for (int64_t block = 0; block < shape.channels * cut.parts; ++block) {
            int64_t part = block;
            const int64_t channel = take(part, shape.channels);
            for (int64_t unit = part; unit < units; unit += cut.parts)
                add_tile(cut, all, channel,
                        {cut, cut.columns(run), unit / cut.pieces,
                                unit % cut.pieces});
            for (int64_t e = 0; e < cut.jobs * taps; ++e)
                if (e >= cut.lead && e - cut.lead < kernel)
                    all.sums.add({channel, 0, 0, e - cut.lead, part});
        }
    }
    EXPECT_LE(shared_bytes, static_cast<int64_t>(cut.shared_bytes));
}

// rows_nxc.

void go_through_rows_nxc(const rows_nxc::work_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const auto &[deep, down, along] = shape.axes;
    const bool of_weights = all.facts.of_weights();
    const int64_t blocks = int64_t {cut.parts} * cut.channel_tiles
            * (of_weights ? cut.chunks : 1);
    EXPECT_GE(int64_t {cut.chunks} * cut.taps, along.kernel);
    for (int64_t block = 0; block < blocks; ++block)
        for (int64_t thread = 0; thread < rows_nxc::block_threads; ++thread) {
            int64_t part = block;
            const int64_t slot = thread / cut.lanes;
            const int64_t channel = (take(part, cut.channel_tiles) * cut.lanes
                                            + thread % cut.lanes)
                    * cut.vector;
            const int64_t chunk = of_weights ? take(part, cut.chunks) : 0;
            if (channel >= shape.channels || slot >= cut.slots) continue;
            for (int64_t v = 0; v < cut.vector; ++v) {
                for (int64_t e = 0; of_weights && slot == 0 && e < cut.taps;
                        ++e)
                    if (const int64_t tap = chunk * cut.taps + e;
                            tap < along.kernel)
                        all.sums.add({channel + v, 0, 0, tap, part});
                if (chunk != 0) continue;
                const int64_t step = of_weights
                        ? int64_t {cut.parts} * cut.slots
                        : cut.units;
                for (int64_t unit = part * cut.slots + slot; unit < cut.units;
                        unit += step) {
                    int64_t rest = unit;
                    const int64_t column = take(rest, cut.pieces)
                            * cut.piece_runs * rows_nxc::run_length;
                    const int64_t h = take(rest, down.written);
                    const int64_t d = take(rest, deep.written);
                    const int64_t runs = std::min<int64_t>(cut.piece_runs,
                            ceil_div(along.written - column,
                                    int64_t {rows_nxc::run_length}));
                    for (int64_t at = 0; at < runs; ++at)
                        all.add_run(rest, channel + v, d, h,
                                column + at * rows_nxc::run_length,
                                rows_nxc::run_length);
                }
            }
        }
}

TEST(depthwise_maps, of_lines) {
    expect_all_once<lines::work_cut>(17, 20, go_through_lines);
}

TEST(depthwise_maps, of_rows_in_ncx) {
    expect_all_once<rows_ncx::work_cut>(18, 100, go_through_rows_ncx);
}

TEST(depthwise_maps, of_rows_in_nxc) {
    expect_all_once<rows_nxc::work_cut>(19, 100, go_through_rows_nxc);
}

} // namespace
} // namespace gradnn::test
