// What the blocks and threads of depthwise matrices have: each element is computed once and
// all that it meets is held. Those of rows: gpu_depthwise_rows_maps_test.cpp.
#include "gpu_cuts/depthwise_tallies.hpp"

#include "gpu/convolution/depthwise/matrices/cut.hpp"

namespace gradnn::test {
namespace {

/// Rows [begin, end).
struct rows_range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
};

// matrices.

void go_through_matrices(const matrices::work_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const auto &[deep, down, along] = shape.axes;
    const bool of_weights = all.facts.of_weights();
    const int64_t size = down.kernel;
    const int64_t stages = ceil_div(shape.images, int64_t {cut.images});
    // Columns of src are shared out instead, whatever there are of dst.
    tally columns_of_src({of_weights ? shape.images : 0, shape.channels,
            cut.bands, 1, ceil_div(along.read, matrices::tile_span)});
    for (int64_t block = 0; block < cut.blocks(); ++block) {
        int64_t rest = block;
        const int64_t band = take(rest, cut.bands);
        const int64_t image_part = take(rest, cut.image_parts);
        const int64_t first_channel = rest * cut.planes;
        const int64_t planes
                = std::min<int64_t>(cut.planes, shape.channels - first_channel);
        EXPECT_GE(planes, 1);
        const int64_t begin = band * cut.band_rows;
        const int64_t rows
                = std::min<int64_t>(down.written - begin, cut.band_rows);
        EXPECT_GE(rows, 1);
        const int64_t before = taps_before(down, shape.to_src);
        const rows_range read = cut.bands == 1
                ? rows_range {0, down.read}
                : rows_range {std::clamp<int64_t>(begin - before, 0, down.read),
                        std::min<int64_t>(
                                begin + rows - before + size - 1, down.read)};
        expect_held(down, shape.to_src, begin, rows, size, read.begin,
                read.count());
        // The last plane, as far past 16 bytes as can be, and zeros after it.
        const int64_t row_bytes = along.read * int64_t {2} + cut.read_gap;
        EXPECT_LE(cut.read_lead + int64_t {cut.planes - 1} * cut.read_distance
                        + read.count() * row_bytes + 14,
                cut.read_bytes);
        for (int64_t warp = 0; warp < matrices::block_warps; ++warp) {
            const int64_t first = warp % cut.planes;
            const int64_t share = cut.planes < matrices::block_warps
                    ? warp / cut.planes
                    : 0;
            const int64_t shares
                    = std::max(1, matrices::block_warps / cut.planes);
            for (int64_t stage = image_part; stage < stages;
                    stage += cut.image_parts)
                for (int64_t i = 0; i < cut.images; ++i) {
                    const int64_t image = stage * cut.images + i;
                    if (image >= shape.images) continue;
                    if (of_weights) {
                        if (first >= planes) continue;
                        for (int64_t tile = share; tile
                                < ceil_div(along.read, matrices::tile_span);
                                tile += shares)
                            columns_of_src.add({image, first_channel + first,
                                    band, 0, tile});
                        for (int64_t h = 0; share == 0 && h < rows; ++h)
                            all.add_run(image, first_channel + first, 0,
                                    begin + h, 0, along.written);
                        continue;
                    }
                    for (int64_t plane = first; plane < planes;
                            plane += matrices::block_warps)
                        for (int64_t row = share * matrices::tile_rows;
                                row < rows; row += shares * matrices::tile_rows)
                            for (int64_t h = row;
                                    h < std::min<int64_t>(
                                            row + matrices::tile_rows, rows);
                                    ++h)
                                all.add_run(image, first_channel + plane, 0,
                                        begin + h, 0, along.written);
                }
        }
        for (int64_t i = 0; of_weights && i < planes * size * size; ++i)
            all.sums.add({first_channel + i / (size * size), 0, i / size % size,
                    i % size, image_part * cut.bands + band});
    }
    if (of_weights) {
        EXPECT_TRUE(columns_of_src.all_once());
    }
}

TEST(depthwise_maps, of_matrices) {
    expect_all_once<matrices::work_cut>(15, 100, go_through_matrices);
}

} // namespace
} // namespace gradnn::test
