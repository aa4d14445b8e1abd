// How convolution.gpu_few_channels cuts random problems: what is launched fits a device, and
// each element of diff_src is one thread's. Host arithmetic; needs no GPU.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "gpu/convolution/few_channels/cut.hpp"
#include "gpu_cuts/tally.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::few_channels;
using gpu::ceil_div;

/// The strides along the last axis that there are kernels for, and their longest windows.
constexpr std::array<std::array<int, 2>, 5> strides {
        {{1, 7}, {2, 8}, {4, 12}, {5, 10}, {8, 16}}};

detail::convolution_problem draw(random_source &random, bool line, bool huge) {
    detail::convolution_problem p;
    p.direction = detail::convolution_direction::backward_data;
    const auto [stride, longest]
            = strides[static_cast<size_t>(random.integer(0, 4))];
    const int64_t channels = stride == 8 ? 1
            : stride == 5                ? random.integer(1, 3)
                                         : random.integer(1, 4);
    p.src.dims = {random.integer(1, 3), channels, 1, 1, 1};
    p.dst.dims = {p.src.dims[0], random.integer(1, 70), 1, 1, 1};
    p.weights.dims = {1, p.dst.dims[1], channels, 1, 1, 1};
    for (size_t axis = line                     ? 2
                    : random.integer(0, 1) == 0 ? 0
                                                : 1;
            axis < 3; ++axis) {
        const bool last = axis == 2;
        const int64_t most = huge ? int64_t {1} << random.integer(1, 24)
                : last            ? 400
                                  : 20;
        p.src.dims[axis + 2] = random.integer(1, most);
        p.strides[axis] = last ? stride
                : huge         ? random.integer(1, 400)
                               : random.integer(1, 4);
        const int64_t window = last ? random.integer(1, longest)
                                    : random.integer(1, huge ? 300 : 5);
        p.weights.dims[axis + 3] = window;
        p.pads_begin[axis] = random.integer(-1, window);
        p.dst.dims[axis + 2] = std::max<int64_t>(1,
                (p.src.dims[axis + 2] + 2 * p.pads_begin[axis] - window)
                        / p.strides[axis]);
    }
    return p;
}

/// Where the columns of the thread's cells begin.
int64_t first_column(const problem_shape &shape, int64_t tile, int64_t segment,
        int64_t cells) {
    const window_axis &along = shape.axes[2];
    const int64_t cell
            = along.first + (tile * shape.segments + segment) * cells;
    return cell * along.stride - along.pad;
}

void go_through(const problem_shape &shape, const launch_grid &grid, bool line,
        tally &elements) {
    const auto &[deep, down, along] = shape.axes;
    const int64_t cells
            = line ? line_cells(along.stride) : tile_cells(along.stride);
    for (int64_t block = 0; block < grid.blocks; ++block) {
        int64_t rest = block;
        const int64_t column_tile = take(rest, shape.column_tiles);
        const int64_t row_tile = line ? 0 : take(rest, shape.row_tiles);
        const int64_t depth = line ? 0 : take(rest, deep.src);
        // Of lines all warps have the same columns.
        const int64_t threads = line ? line_lanes : grid.threads;
        for (int64_t thread = 0; thread < threads; ++thread) {
            const int64_t row = thread / shape.segments;
            const int64_t phase = line ? row : row / shape.cell_rows;
            if (phase >= down.stride) continue;
            const int64_t v = line ? down.first
                                   : down.first + row_tile * shape.cell_rows
                            + row % shape.cell_rows;
            const int64_t h = v * down.stride + phase - down.pad;
            if (h < 0 || h >= down.src) continue;
            const int64_t first = first_column(
                    shape, column_tile, thread % shape.segments, cells);
            for (int64_t w = std::max<int64_t>(first, 0);
                    w < std::min<int64_t>(
                            first + cells * along.stride, along.src);
                    ++w)
                elements.add({rest, 0, depth, h, w});
        }
    }
}

/// Whether there was a cut.
bool check(const detail::convolution_problem &p, bool line, bool huge) {
    problem_shape shape = shape_of(p);
    const launch_grid grid = line
            ? cut_lines(shape, p.src.dims[0], 132, most_shared_bytes)
            : cut_tiles(shape, p.src.dims[0], most_shared_bytes);
    if (grid.blocks == 0) return false;
    EXPECT_LE(static_cast<int64_t>(grid.shared_bytes), most_shared_bytes);
    EXPECT_EQ(grid.threads % 32, 0);
    EXPECT_GE(grid.threads, 32);
    EXPECT_LE(grid.threads, tile_threads);
    EXPECT_LT(grid.blocks, INT32_MAX);
    EXPECT_GE(shape.segments, 1);
    if (!line) {
        // Rows of one stage that the tile's cells meet.
        EXPECT_GE(shape.staged_rows,
                shape.cell_rows
                        + (shape.axes[1].kernel - 1) / shape.axes[1].stride);
        EXPECT_GE(shape.pitch, staged_place(shape.staged_columns - 1) + 1);
    }
    if (huge) return true;
    const auto &dims = p.src.dims;
    tally elements({dims[0], 1, dims[2], dims[3], dims[4]});
    go_through(shape, grid, line, elements);
    EXPECT_TRUE(elements.all_once());
    return true;
}

TEST(few_channels_cuts, have_each_element_once) {
    random_source random(test_seed(1));
    for (int left = 1500; left > 0 && !HasFailure(); --left) {
        const bool line = left % 3 == 0;
        const auto p = draw(random, line, false);
        SCOPED_TRACE(detail::text("src ", detail::text_of(p.src.dims),
                " window ", detail::text_of(p.weights.dims), " strides ",
                detail::text_of(p.strides), " pads ",
                detail::text_of(p.pads_begin)));
        EXPECT_TRUE(check(p, line, false));
    }
}

TEST(few_channels_cuts, fit_the_device_in_huge_problems) {
    random_source random(test_seed(2));
    std::array<int, 2> kinds {};
    for (int left = 3000; left > 0 && !HasFailure(); --left) {
        const bool line = left % 3 == 0;
        const auto p = draw(random, line, true);
        SCOPED_TRACE(detail::text("src ", detail::text_of(p.src.dims),
                " window ", detail::text_of(p.weights.dims), " strides ",
                detail::text_of(p.strides), " pads ",
                detail::text_of(p.pads_begin)));
        ++kinds[check(p, line, true) ? 0 : 1];
    }
    EXPECT_GE(kinds[0], 100);
    EXPECT_GE(kinds[1], 100);
}

// A device whose blocks may have less than a warp of lines takes.
TEST(few_channels_cuts, are_none_where_shared_memory_is_too_small) {
    detail::convolution_problem p;
    p.src.dims = {1, 4, 1, 1, 100};
    p.dst.dims = {1, 8, 1, 1, 100};
    p.weights.dims = {1, 8, 4, 1, 1, 7};
    problem_shape shape = shape_of(p);
    EXPECT_EQ(cut_lines(shape, 1, 132, 1024).blocks, 0);
    EXPECT_EQ(cut_tiles(shape, 1, 1024).blocks, 0);
}

} // namespace
} // namespace gradnn::test
