// Gradient of src with one to four channels along one axis, strict f32: which problems, how
// they are cut, and the plan. README.md has the formula, and how data.cu computes it.
#include "gpu/convolution/few_channels/shape.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/text.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::few_channels {

namespace {

using detail::text;

/// Of each multiprocessor, if there are output channels for so many.
constexpr int64_t wanted_warps = 32;

/// Of a sum; longer chains of f32 lose digits.
constexpr int64_t longest_chain = 4096;

/// Along the last axis, for which there are kernels; 0 where there are none.
int64_t longest_window(int64_t stride, int64_t channels) {
    switch (stride) {
        case 1: return 7;
        case 2: return 8;
        case 4: return 12;
        case 5: return channels <= 3 ? 10 : 0;
        case 8: return channels == 1 ? 16 : 0;
        default: return 0;
    }
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
    // The steps of the kernel that serves the window.
    const int steps = ceil_div(shape.kernel, shape.stride);
    shape.steps = std::max(steps, 2);
    if (shape.stride == 1) shape.steps = steps <= 3 ? 3 : steps <= 5 ? 5 : 7;
    shape.held_channels = shape.channels == 2 ? 3 : shape.channels;
    shape.channels_last = shape.outputs > 1 && shape.dst_strides[1] == 1;
    return shape;
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

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    if (problem.direction != detail::convolution_direction::backward_data
            || problem.src.type != detail::data_type::f32
            || options.fpmath != fpmath_mode::strict)
        return detail::refuse(
                "gradients of src in f32 under fpmath_mode strict", problem);
    const auto &window = problem.weights.dims;
    if (window[0] != 1 || problem.src.dims[1] > 4)
        return detail::refuse(
                "one group and at most 4 channels of src", problem);
    for (const int64_t dilation : problem.dilations)
        if (dilation != 1) return detail::refuse("dilations of 1", problem);
    for (const size_t axis : {0U, 1U})
        if (problem.src.dims[2 + axis] != 1 || problem.dst.dims[2 + axis] != 1
                || window[3 + axis] != 1 || problem.pads_begin[axis] != 0)
            return detail::refuse("one spatial axis", problem);
    const int64_t stride = problem.strides[2];
    if (window[5] > longest_window(stride, problem.src.dims[1]))
        return detail::refuse(
                "windows of at most 7 points with a stride of 1, 8 with 2, 12 "
                "with 4, 10 with 5 (3 channels and fewer), 16 with 8 (one "
                "channel)",
                problem);
    const int64_t chain = problem.dst.dims[1] * ceil_div(window[5], stride);
    if (chain > longest_chain)
        return plan_or_refusal::refuse(text("takes sums of at most ",
                longest_chain, " terms, given ", chain));
    for (const int64_t size : {problem.src.dims[4], problem.dst.dims[4],
                 std::abs(problem.pads_begin[2])})
        if (size > 1 << 24)
            return plan_or_refusal::refuse(
                    text("takes axes of at most 2^24, given ", size));
    const auto device = static_cast<int>(options.device);
    const device_properties &properties = properties_of(device);
    const int64_t most_bytes = std::min(most_shared_bytes,
            static_cast<int64_t>(properties.block_shared_bytes));
    problem_shape shape = shape_of(problem);
    const launch_grid grid = cut(
            shape, problem.src.dims[0], properties.multiprocessors, most_bytes);
    if (grid.blocks == 0)
        return detail::refuse(
                "a window and a row that fit in shared memory", problem);
    const int64_t count = int64_t {shape.outputs}
            * tap_floats(shape.steps, shape.stride, shape.held_channels);
    data_kernel *const kernel = data_kernel_of(shape);
    {
        const allocation_guard current(device); // attributes load the kernel
        allow_shared_bytes(kernel, static_cast<size_t>(most_bytes));
    }
    const auto launches = [=](const tensor_pointers &at,
                                  const launch_stream &stream) {
        launch_early("convolution.gpu_few_channels (weights)",
                few_weights_kernel, ceil_div(count, most_threads), most_threads,
                0, stream, at.weights, at.workspace, shape, count);
        launch_early("convolution.gpu_few_channels", kernel, grid.blocks,
                grid.threads, grid.shared_bytes, stream, at.dst, at.workspace,
                at.src, shape);
    };
    return within_workspace_limit(
            plan_of(launches, static_cast<size_t>(count) * sizeof(float)),
            options, "its weights");
}

} // namespace gradnn::gpu::few_channels
