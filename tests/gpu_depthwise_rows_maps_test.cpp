// What the blocks and threads of the depthwise family lines have: see
// gpu_cuts/depthwise_tallies.hpp.
#include "gpu_cuts/depthwise_tallies.hpp"

#include "gpu/convolution/depthwise/lines/cut.hpp"

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

TEST(depthwise_maps, of_lines) {
    expect_all_once<lines::work_cut>(17, 20, go_through_lines);
}

} // namespace
} // namespace gradnn::test
