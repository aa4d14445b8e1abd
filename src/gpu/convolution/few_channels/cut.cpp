// How convolution.gpu_few_channels cuts a problem. Plain host arithmetic.
#include "gpu/convolution/few_channels/shape.hpp"

#include <algorithm>

#include "gpu/device/rounding.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::few_channels {

namespace {

using detail::convolution_problem;

/// Lines: of each multiprocessor, if there are output channels for so many.
constexpr int64_t wanted_warps = 32;

/// The steps of the kernel that serves a window.
int steps_of(const window_axis &along) {
    const int steps = ceil_div(along.kernel, along.stride);
    if (along.stride == 1) return steps <= 3 ? 3 : steps <= 5 ? 5 : 7;
    return std::max(steps, 2);
}

bool is_none(const window_axis &axis) {
    return axis.src == 1 && axis.dst == 1 && axis.kernel == 1 && axis.pad == 0;
}

/// Cuts a row into pieces of at most so many threads, none much shorter.
void cut_row(problem_shape &shape, int cells, int most_segments) {
    const int all_segments = ceil_div(all_cells_of(shape.axes[2]), cells);
    shape.column_tiles = ceil_div(all_segments, most_segments);
    shape.segments = ceil_div(all_segments, shape.column_tiles);
    shape.staged_columns = shape.segments * cells + shape.steps - 1;
}

} // namespace

int all_cells_of(const window_axis &axis) {
    return floor_div(axis.src - 1 + axis.pad, axis.stride) - axis.first + 1;
}

bool is_line(const problem_shape &shape) {
    return is_none(shape.axes[0]) && is_none(shape.axes[1]);
}

problem_shape shape_of(const convolution_problem &problem) {
    problem_shape shape;
    shape.channels = static_cast<int>(problem.src.dims[1]);
    shape.outputs = static_cast<int>(problem.dst.dims[1]);
    std::ranges::copy(problem.src.strides, shape.src_strides);
    std::ranges::copy(problem.dst.strides, shape.dst_strides);
    std::copy(problem.weights.strides.begin() + 1,
            problem.weights.strides.end(), shape.weights_strides);
    for (size_t i = 0; i < 3; ++i) {
        window_axis &axis = shape.axes[i];
        axis.src = static_cast<int>(problem.src.dims[i + 2]);
        axis.dst = static_cast<int>(problem.dst.dims[i + 2]);
        axis.kernel = static_cast<int>(problem.weights.dims[i + 3]);
        axis.stride = static_cast<int>(problem.strides[i]);
        axis.pad = static_cast<int>(problem.pads_begin[i]);
        axis.first = floor_div(axis.pad, axis.stride);
    }
    shape.steps = steps_of(shape.axes[2]);
    shape.held_channels = shape.channels == 2 ? 3 : shape.channels;
    shape.channels_last = shape.outputs > 1 && shape.dst_strides[1] == 1;
    return shape;
}

int64_t gathered_floats(const problem_shape &shape) {
    return int64_t {round_up(shape.outputs, tile_outputs)}
    * shape.axes[0].kernel * shape.axes[1].kernel
            * tap_floats(
                    shape.steps, shape.axes[2].stride, shape.held_channels);
}

/// Long rows rather than many, as many threads as there are, and no more
/// shared memory than is allowed. No blocks where that cannot be.
launch_grid cut_tiles(
        problem_shape &shape, int64_t images, int64_t most_bytes) {
    const window_axis &down = shape.axes[1];
    const int stride = shape.axes[2].stride;
    const int all_rows = all_cells_of(down);
    const int most_segments
            = std::min(all_rows > 1 ? 16 : 64, tile_threads / down.stride);
    if (most_segments == 0) return {};
    cut_row(shape, tile_cells(stride), most_segments);
    const int taps = tap_floats(shape.steps, stride, shape.held_channels);
    const int down_steps = ceil_div(down.kernel, down.stride);
    const int threads_of_row = shape.segments * down.stride;
    launch_grid grid;
    int rows = std::min(all_rows, tile_threads / threads_of_row);
    for (; rows > 0; --rows) {
        shape.row_tiles = ceil_div(all_rows, rows);
        shape.cell_rows = ceil_div(all_rows, shape.row_tiles);
        shape.staged_rows = shape.cell_rows + down_steps - 1;
        // A thread reads whole 16 bytes, past its last cell.
        shape.pitch = staged_place(shape.staged_columns + 3) / 4 * 4 + 4;
        shape.stage_floats = tile_outputs
                * (shape.staged_rows * shape.pitch + down.kernel * taps);
        grid.shared_bytes
                = 2 * sizeof(float) * static_cast<size_t>(shape.stage_floats);
        if (static_cast<int64_t>(grid.shared_bytes) <= most_bytes) break;
    }
    if (rows == 0) return {};
    grid.threads = round_up(threads_of_row * shape.cell_rows, 32);
    const int64_t blocks
            = images * shape.axes[0].src * shape.row_tiles * shape.column_tiles;
    if (blocks < INT32_MAX) grid.blocks = blocks;
    return grid;
}

/// Four ways, whose output channels are 128 bytes of NXC; more where there
/// would be few warps, fewer where there are few output channels.
launch_grid cut_lines(problem_shape &shape, int64_t images,
        int64_t multiprocessors, int64_t most_bytes) {
    const int stride = shape.axes[2].stride;
    cut_row(shape, line_cells(stride), line_lanes);
    const size_t warp_bytes = sizeof(float)
            * static_cast<size_t>(
                    line_floats(shape.steps, stride, shape.held_channels));
    const int64_t blocks = images * shape.column_tiles;
    const int chunks = ceil_div(shape.outputs, line_outputs);
    const int most_ways = std::min({chunks, line_most_ways,
            static_cast<int>(static_cast<size_t>(most_bytes) / warp_bytes)});
    if (most_ways == 0) return {};
    int ways = std::min(4, most_ways);
    while (2 * ways <= most_ways
            && blocks * ways < multiprocessors * wanted_warps)
        ways *= 2;
    launch_grid grid;
    grid.threads = ways * line_lanes;
    grid.shared_bytes = static_cast<size_t>(ways) * warp_bytes;
    if (blocks < INT32_MAX) grid.blocks = blocks;
    return grid;
}

} // namespace gradnn::gpu::few_channels
