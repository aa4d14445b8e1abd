// What the blocks and threads of the depthwise families lines and rows_ncx have:
// see gpu_cuts/depthwise_tallies.hpp.
#include "gpu_cuts/depthwise_tallies.hpp"

#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"

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

TEST(depthwise_maps, of_lines) {
    expect_all_once<lines::work_cut>(17, 20, go_through_lines);
}

TEST(depthwise_maps, of_rows_in_ncx) {
    expect_all_once<rows_ncx::work_cut>(18, 100, go_through_rows_ncx);
}

} // namespace
} // namespace gradnn::test
