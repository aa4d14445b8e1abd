// How convolution.gpu_few_channels cuts a problem. Plain host arithmetic.
#include "gpu/convolution/few_channels/shape.hpp"

#include <algorithm>

#include "gpu/device/rounding.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::few_channels {

namespace {

/// Of each multiprocessor, if there are output channels for so many.
constexpr int64_t wanted_warps = 32;

/// The steps of the kernel that serves a window.
int steps_of(const problem_shape &shape) {
    const int steps = ceil_div(shape.kernel, shape.stride);
    if (shape.stride == 1) return steps <= 3 ? 3 : steps <= 5 ? 5 : 7;
    return std::max(steps, 2);
}

} // namespace

problem_shape shape_of(const detail::convolution_problem &problem) {
    problem_shape shape;
    shape.channels = static_cast<int>(problem.src.dims[1]);
    shape.outputs = static_cast<int>(problem.dst.dims[1]);
    shape.src = static_cast<int>(problem.src.dims[4]);
    shape.dst = static_cast<int>(problem.dst.dims[4]);
    shape.kernel = static_cast<int>(problem.weights.dims[5]);
    shape.stride = static_cast<int>(problem.strides[2]);
    shape.pad = static_cast<int>(problem.pads_begin[2]);
    shape.first = floor_div(shape.pad, shape.stride);
    for (const size_t i : {0U, 1U, 2U}) {
        const size_t axis = i == 2 ? 4 : i;
        shape.src_strides[i] = problem.src.strides[axis];
        shape.dst_strides[i] = problem.dst.strides[axis];
        shape.weights_strides[i] = problem.weights.strides[1 + axis];
    }
    shape.steps = steps_of(shape);
    shape.held_channels = shape.channels == 2 ? 3 : shape.channels;
    shape.channels_last = shape.outputs > 1 && shape.dst_strides[1] == 1;
    return shape;
}

int64_t gathered_floats(const problem_shape &shape) {
    return int64_t {shape.outputs}
    * tap_floats(shape.steps, shape.stride, shape.held_channels);
}

/// Pieces of rows of a warp's threads at most, none much shorter. Four ways, whose output
/// channels are 128 bytes of NXC; more where there would be few warps, fewer where there
/// are few output channels.
launch_grid cut(problem_shape &shape, int64_t images, int64_t multiprocessors,
        int64_t most_bytes) {
    const int cells = cells_of(shape.stride);
    const int all_cells = floor_div(shape.src - 1 + shape.pad, shape.stride)
            - shape.first + 1;
    const int all_segments = ceil_div(all_cells, cells);
    shape.column_tiles = ceil_div(all_segments, lanes);
    shape.segments = ceil_div(all_segments, shape.column_tiles);
    shape.staged_columns = shape.segments * cells + shape.steps - 1;
    const size_t warp_bytes = sizeof(float)
            * static_cast<size_t>(floats_of_warp(
                    shape.steps, shape.stride, shape.held_channels));
    const int64_t blocks = images * shape.column_tiles;
    const int most = std::min({ceil_div(shape.outputs, stage_outputs),
            most_ways,
            static_cast<int>(static_cast<size_t>(most_bytes) / warp_bytes)});
    if (most == 0) return {};
    int ways = std::min(4, most);
    while (2 * ways <= most && blocks * ways < multiprocessors * wanted_warps)
        ways *= 2;
    launch_grid grid;
    grid.threads = ways * lanes;
    grid.shared_bytes = static_cast<size_t>(ways) * warp_bytes;
    if (blocks < INT32_MAX) grid.blocks = blocks;
    return grid;
}

} // namespace gradnn::gpu::few_channels
