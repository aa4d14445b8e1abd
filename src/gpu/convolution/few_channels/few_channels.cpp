// Gradient of src with one to four channels, strict f32: of a network's first
// layer.
//
//     diff_src[n,i,x] = sum over o, k with x + pad = y * stride + k of
//                       weights[o,i,k] * diff_dst[n,o,y]
//
// On tensor cores 3 channels fill a fifth of the narrowest tile; plain products
// are faster. Along each axis u = x + pad = v * stride + phase meets the
// positions y = v - t of diff_dst with the taps k = t * stride + phase. A
// thread owns neighbouring v along W with all phases, in all channels.
//
// tile.cu: a block owns some rows, a thread its
// columns' whole sums. line.cu, for one spatial axis:
// a block owns a piece of a row, and its warps share the output channels.
//
// A first launch writes the weights to the workspace, [o][kd][kh][t][phase][i],
// with zeros for taps and channels that are none. Those meet diff_dst all the
// same, so sums that come out infinite or NaN are taken again from the
// definition.
//
// The order of each sum depends on the problem and the number of the device's
// multiprocessors alone. The same bits always.
#include "gpu/convolution/few_channels/shape.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "problem_text.hpp"
#include "text.hpp"

namespace gradnn::gpu::few_channels {

namespace {

using detail::text;

/// Of a sum; longer chains of f32 lose digits.
constexpr int64_t longest_chain = 4096;
/// Two blocks fit a multiprocessor.
constexpr size_t most_shared_bytes = 96 * 1024;
/// Lines: of each multiprocessor, if there are output channels for so many.
constexpr int64_t wanted_warps = 32;

struct launch_grid {
    int64_t blocks = 0;
    int threads = 0;
    size_t shared_bytes = 0;
};

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

/// The steps of the kernel that serves a window.
int steps_of(const window_axis &along) {
    const int steps = ceil_div(along.kernel, along.stride);
    if (along.stride == 1) return steps <= 3 ? 3 : steps <= 5 ? 5 : 7;
    return std::max(steps, 2);
}

/// The v that the axis has.
int all_cells_of(const window_axis &axis) {
    return floor_div(axis.src - 1 + axis.pad, axis.stride) - axis.first + 1;
}

bool is_none(const window_axis &axis) {
    return axis.src == 1 && axis.dst == 1 && axis.kernel == 1 && axis.pad == 0;
}

problem_shape shape_of(const convolution_problem &problem) {
    problem_shape shape;
    shape.channels = static_cast<int>(problem.src.dims[1]);
    shape.outputs = static_cast<int>(problem.dst.dims[1]);
    std::copy(problem.src.strides.begin(), problem.src.strides.end(),
            shape.src_strides);
    std::copy(problem.dst.strides.begin(), problem.dst.strides.end(),
            shape.dst_strides);
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

/// Cuts a row into pieces of at most so many threads, none much shorter.
void cut_row(problem_shape &shape, int cells, int most_segments) {
    const int all_segments = ceil_div(all_cells_of(shape.axes[2]), cells);
    shape.column_tiles = ceil_div(all_segments, most_segments);
    shape.segments = ceil_div(all_segments, shape.column_tiles);
    shape.staged_columns = shape.segments * cells + shape.steps - 1;
}

/// Long rows rather than many, as many threads as there are, and no more
/// shared memory than is allowed. No blocks where that cannot be.
launch_grid cut_tiles(problem_shape &shape, int64_t images) {
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
        if (grid.shared_bytes <= most_shared_bytes) break;
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
launch_grid cut_lines(
        problem_shape &shape, int64_t images, int64_t multiprocessors) {
    const int stride = shape.axes[2].stride;
    cut_row(shape, line_cells(stride), line_lanes);
    const size_t warp_bytes = sizeof(float)
            * static_cast<size_t>(
                    line_floats(shape.steps, stride, shape.held_channels));
    const int64_t blocks = images * shape.column_tiles;
    const int chunks = ceil_div(shape.outputs, line_outputs);
    const int most_ways = std::min({chunks, line_most_ways,
            static_cast<int>(most_shared_bytes / warp_bytes)});
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

class data_plan final : public kernel_plan {
public:
    data_plan(const convolution_problem &problem, int device)
        : shape_(shape_of(problem)) {
        const int64_t images = problem.src.dims[0];
        // One spatial axis.
        const bool line = is_none(shape_.axes[0]) && is_none(shape_.axes[1]);
        grid_ = line ? cut_lines(
                        shape_, images, properties_of(device).multiprocessors)
                     : cut_tiles(shape_, images);
        if (!fits()) return;
        gathered_ = int64_t {round_up(shape_.outputs, tile_outputs)}
                * shape_.axes[0].kernel * shape_.axes[1].kernel
                * tap_floats(shape_.steps, shape_.axes[2].stride,
                        shape_.held_channels);
        gather_kernel_ = gather_kernel_of(shape_);
        kernel_ = line ? line_kernel_of(shape_) : tile_kernel_of(shape_);
        const allocation_guard current(device); // attributes load the kernel
        allow_shared_bytes(kernel_, most_shared_bytes);
    }

    /// False where no block's part fits shared memory, or there are too many.
    bool fits() const { return grid_.blocks != 0; }

    size_t workspace_bytes() const override {
        return static_cast<size_t>(gathered_) * sizeof(float);
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        auto *const diff_src = static_cast<float *>(args[0]);
        const auto *const weights = static_cast<const float *>(args[1]);
        const auto *const diff_dst = static_cast<const float *>(args[2]);
        auto *const gathered = reinterpret_cast<float *>(workspace);
        launch_early("convolution.gpu_few_channels (weights)", gather_kernel_,
                ceil_div(gathered_, tile_threads), tile_threads, 0, stream,
                weights, gathered, shape_, gathered_);
        launch_early("convolution.gpu_few_channels", kernel_, grid_.blocks,
                grid_.threads, grid_.shared_bytes, stream, diff_dst, gathered,
                weights, diff_src, shape_);
    }

    problem_shape shape_;
    launch_grid grid_;
    int64_t gathered_ = 0; ///< floats of the weights in the workspace
    gather_kernel *gather_kernel_ = nullptr;
    data_kernel *kernel_ = nullptr;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    if (problem.direction != detail::convolution_direction::backward_data
            || problem.src.type != detail::data_type::f32
            || options.fpmath != fpmath_mode::strict)
        return detail::refuse(
                "gradients of src in f32 under fpmath_mode strict", problem);
    const auto &kernel = problem.weights.dims;
    if (kernel[0] != 1 || problem.src.dims[1] > 4)
        return detail::refuse(
                "one group and at most 4 channels of src", problem);
    for (const int64_t dilation : problem.dilations)
        if (dilation != 1) return detail::refuse("dilations of 1", problem);
    const int64_t stride = problem.strides[2];
    if (kernel[5] > longest_window(stride, problem.src.dims[1]))
        return detail::refuse(
                "along the last axis a stride of 1 and a window of at most 7, "
                "or "
                "2 and 8, 4 and 12, of 3 channels 5 and 10, or of one 8 and 16",
                problem);
    const int64_t chain = problem.dst.dims[1]
            * ceil_div(kernel[3], problem.strides[0])
            * ceil_div(kernel[4], problem.strides[1])
            * ceil_div(kernel[5], stride);
    if (chain > longest_chain)
        return plan_or_refusal::refuse(text("takes sums of at most ",
                longest_chain, " terms, given ", chain));
    for (size_t axis = 0; axis < 3; ++axis)
        for (const int64_t size : {problem.src.dims[axis + 2],
                     problem.dst.dims[axis + 2], kernel[axis + 3],
                     problem.strides[axis], std::abs(problem.pads_begin[axis])})
            if (size > 1 << 24)
                return plan_or_refusal::refuse(
                        text("takes axes of at most 2^24, given ", size));
    const auto device = static_cast<int>(options.device);
    auto plan = std::make_unique<data_plan>(problem, device);
    if (!plan->fits())
        return detail::refuse(
                "a window and rows that fit in shared memory", problem);
    return within_workspace_limit(std::move(plan), options, "its weights");
}

} // namespace gradnn::gpu::few_channels
