// What the blocks and threads of the depthwise families that hold rows or planes in shared
// memory have: see gpu_depthwise_maps_test.cpp. Their rows alone:
// gpu_depthwise_rows_maps_test.cpp.
#include "gpu_cuts/depthwise_tallies.hpp"

#include "gpu/convolution/depthwise/diagonals/cut.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"

namespace gradnn::test {
namespace {

/// Rows [begin, end).
struct rows_range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
};

// planes.

/// Rows of a plane that a block of the data kernel holds, where they lie in memory.
rows_range held_by_planes(const planes::work_cut &cut, bool mirrored,
        int64_t begin, int64_t end, int64_t rows) {
    if (cut.bands == 1) return {0, rows};
    begin = std::clamp<int64_t>(begin, 0, rows);
    end = std::max(begin, std::min(end, rows));
    return mirrored ? rows_range {rows - end, rows - begin}
                    : rows_range {begin, end};
}

/// Whether a buffer holds so many elements, wherever they begin, with their slack.
void expect_room(size_t bytes, int64_t elements, int64_t element_bytes) {
    EXPECT_LE((elements + 2 * planes::slack_elements) * element_bytes + 16
                    - element_bytes,
            static_cast<int64_t>(bytes));
}

void go_through_planes(const planes::work_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const auto &[deep, down, along] = shape.axes;
    const bool of_weights = all.facts.of_weights();
    const int64_t bytes = all.facts.element_bytes();
    const int64_t run = of_weights ? planes::weights_run(down.kernel, bytes)
                                   : planes::data_run(bytes);
    const int64_t stride = down.stride;
    const int64_t size = down.kernel;
    for (int64_t block = 0; block < cut.tiles * cut.parts(); ++block) {
        int64_t rest = block;
        const int64_t band = take(rest, cut.bands);
        const int64_t image_part = of_weights ? take(rest, cut.image_parts) : 0;
        const int64_t first_plane = rest * cut.planes;
        const int64_t held = std::min<int64_t>(cut.planes,
                shape.channels * (of_weights ? 1 : shape.images) - first_plane);
        EXPECT_GE(held, 1);
        const int64_t first = band * cut.band_steps;
        const int64_t end = std::min<int64_t>(first + cut.band_steps,
                of_weights ? down.written : cut.steps.count);
        rows_range in {0, down.read};
        rows_range out {first, end};
        if (!of_weights) {
            const int64_t bottom = cut.steps.top - end + 1;
            in = held_by_planes(cut, !shape.to_src, bottom,
                    cut.steps.top - first + (size - 1) / stride + 1, down.read);
            out = held_by_planes(cut, !shape.to_src,
                    bottom * stride + size - stride - cut.steps.pad,
                    (cut.steps.top - first) * stride + size - cut.steps.pad,
                    down.written);
        } else if (cut.bands > 1) {
            in.begin = std::clamp<int64_t>(
                    first * stride - down.pad, 0, down.read);
            in.end = std::max(in.begin,
                    std::min<int64_t>(
                            (end - 1) * stride - down.pad + size, down.read));
        }
        expect_held(down, shape.to_src, out.begin, out.count(), size, in.begin,
                in.count());
        expect_room(cut.read_bytes, held * in.count() * along.read, bytes);
        expect_room(
                cut.written_bytes, held * out.count() * along.written, bytes);
        for (int64_t thread = 0; thread < cut.threads; ++thread) {
            const int64_t group = thread / cut.group_distance % cut.groups;
            const int64_t strip = thread / cut.strip_distance % cut.strips;
            const int64_t plane = thread / cut.plane_distance % cut.planes;
            if (thread >= cut.planes * cut.strips * cut.groups || plane >= held)
                continue;
            const int64_t begin = first + strip * cut.strip_steps;
            const int64_t stop
                    = std::min<int64_t>(end, begin + cut.strip_steps);
            const int64_t number = first_plane + plane;
            for (int64_t step = begin; step < stop; ++step) {
                if (of_weights) {
                    for (int64_t image = image_part; image < shape.images;
                            image += cut.image_parts)
                        all.add_run(image, number, 0, step, group * run, run);
                    continue;
                }
                for (int64_t j = 0; j < stride; ++j) {
                    int64_t h = (cut.steps.top - step) * stride + size - stride
                            + j - cut.steps.pad;
                    if (h < 0 || h >= down.written) continue;
                    if (!shape.to_src) h = down.written - 1 - h;
                    EXPECT_TRUE(h >= out.begin && h < out.end);
                    all.add_run(number / shape.channels,
                            number % shape.channels, 0, h, group * run, run);
                }
            }
        }
        for (int64_t i = 0; of_weights && i < held * size * size; ++i)
            all.sums.add({first_plane + i / (size * size), 0, i / size % size,
                    i % size, image_part * cut.bands + band});
    }
}

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

// diagonals.

void go_through_diagonals_data(const diagonals::data_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const auto &[deep, down, along] = shape.axes;
    const int64_t size = down.kernel;
    const int64_t pairs = diagonals::pairs_of(down.kernel);
    const int64_t before = taps_before(down, shape.to_src);
    for (int64_t block = 0; block < cut.blocks(); ++block) {
        int64_t rest = block;
        const int64_t first_channel = take(rest, cut.channel_tiles) * cut.groups
                * diagonals::group_channels;
        const int64_t column = take(rest, cut.column_bands) * cut.tiles
                * diagonals::tile_columns;
        const int64_t groups = std::min<int64_t>(cut.groups,
                (shape.channels - first_channel) / diagonals::group_channels);
        EXPECT_GE(groups, 1);
        // Columns that a row of the block meets fit between its zeros.
        EXPECT_LE(cut.tiles * diagonals::tile_columns + size - 1, cut.pitch);
        for (int64_t strip = rest; strip < shape.images * cut.strips;
                strip += cut.parts) {
            const int64_t image = strip / cut.strips;
            const int64_t begin = strip % cut.strips * cut.strip_rows;
            const int64_t end
                    = std::min<int64_t>(down.written, begin + cut.strip_rows);
            const int64_t open = begin - ((begin + before) & 1);
            const int64_t first = open - before;
            const int64_t first_step = std::max<int64_t>(0, -first / 2);
            const int64_t steps = (end - open + 1) / 2 + pairs - 1;
            int64_t h = open + 2 * (first_step - (pairs - 1));
            for (int64_t step = first_step; step < steps; ++step)
                for (int64_t row = 0; row < 2; ++row, ++h)
                    for (int64_t warp = 0;
                            h >= begin && h < end && warp < cut.warps(); ++warp)
                        for (int64_t c = 0; c < diagonals::group_channels
                                && warp % cut.groups < groups;
                                ++c)
                            all.add_run(image,
                                    first_channel
                                            + warp % cut.groups
                                                    * diagonals::group_channels
                                            + c,
                                    0, h,
                                    column
                                            + warp / cut.groups
                                                    * diagonals::tile_columns,
                                    diagonals::tile_columns);
        }
    }
}

void go_through_diagonals_weights(
        const diagonals::weights_cut &cut, tallies &all) {
    const problem_shape &shape = all.facts.shape;
    const auto &[deep, down, along] = shape.axes;
    const int64_t size = down.kernel;
    const int64_t rows = cut.rows();
    tally columns_of_src({shape.images, shape.channels, 1,
            ceil_div(down.written, diagonals::tile_dst_rows), along.read});
    for (int64_t block = 0; block < cut.blocks(); ++block) {
        int64_t part = block;
        const int64_t first_channel = take(part, cut.channel_tiles) * cut.groups
                * diagonals::group_channels;
        const int64_t groups = std::min<int64_t>(cut.groups,
                (shape.channels - first_channel) / diagonals::group_channels);
        EXPECT_GE(groups, 1);
        // Where in the ring of rows of src the last stages begin, without end.
        std::vector<int64_t> begins {0};
        for (int64_t strip = part; strip < shape.images * cut.strips;
                strip += cut.parts) {
            const int64_t image = strip / cut.strips;
            const int64_t begin = strip % cut.strips * cut.strip_stages * rows;
            const int64_t stages = std::min<int64_t>(
                    cut.strip_stages, ceil_div(down.written - begin, rows));
            for (int64_t i = 0; i < stages; ++i) {
                const size_t oldest = begins.size()
                        - std::min<size_t>(
                                begins.size(), diagonals::weights_stage_count);
                EXPECT_LE(begins.back() + rows + size - 1 - begins[oldest],
                        cut.src_rows);
                begins.push_back(begins.back() + rows
                        + (i + 1 == stages ? size - 1 : 0));
                for (int64_t warp = 0; warp < cut.warps(); ++warp) {
                    int64_t rest = warp;
                    const int64_t group = take(rest, cut.groups);
                    const int64_t row = begin + i * rows
                            + take(rest, cut.tiles) * diagonals::tile_dst_rows;
                    const int64_t first = rest * cut.part_columns;
                    const int64_t end = std::min<int64_t>(
                            along.read, first + cut.part_columns);
                    if (group >= groups || row >= down.written) continue;
                    for (int64_t c = 0; c < diagonals::group_channels; ++c) {
                        const int64_t channel = first_channel
                                + group * diagonals::group_channels + c;
                        for (int64_t w = first; w < end; ++w)
                            columns_of_src.add({image, channel, 0,
                                    row / diagonals::tile_dst_rows, w});
                        for (int64_t h = row; rest == 0
                                && h < std::min<int64_t>(
                                           row + diagonals::tile_dst_rows,
                                           down.written);
                                ++h)
                            all.add_run(image, channel, 0, h, 0, along.written);
                    }
                }
            }
        }
        for (int64_t i = 0;
                i < groups * diagonals::group_channels * size * size; ++i)
            all.sums.add({first_channel + i / (size * size), 0, i / size % size,
                    i % size, part});
    }
    EXPECT_TRUE(columns_of_src.all_once());
}

TEST(DepthwiseMaps, OfPlanes) {
    expect_all_once<planes::work_cut>(14, 200, go_through_planes);
}

TEST(DepthwiseMaps, OfMatrices) {
    expect_all_once<matrices::work_cut>(15, 100, go_through_matrices);
}

TEST(DepthwiseMaps, OfDiagonals) {
    expect_all_once<diagonals::work_cut>(
            16, 60, [](const diagonals::work_cut &cut, tallies &all) {
                if (all.facts.of_weights())
                    go_through_diagonals_weights(cut.weights, all);
                else
                    go_through_diagonals_data(cut.data, all);
            });
}

} // namespace
} // namespace gradnn::test
