// Convolution with groups of few channels in and out, all directions: which problems, and
// the plan. README.md says what is taken where it lies, what by copies, and how channels
// make chunks of 4.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/device.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::narrow_groups {

namespace {

using detail::data_type;
using detail::size_of;
using detail::tensor_view;
using detail::text;

/// Of the weights' partial sums, and of data.
constexpr int64_t longest_chain = 1024;
constexpr int64_t longest_f64_chain = 4096;
constexpr int64_t longest_data_chain = 4096;
/// Of a thread of the weights gradient of f64, which has as many as there may be.
constexpr int64_t f64_registers = 256;
/// Along an axis.
constexpr int64_t most_points = int64_t {1} << 26;
/// A warp of fewer columns reads short pieces of rows.
constexpr int64_t fewest_columns = 4;

/// The same tensor with an axis of groups before the channels'.
six_axes with_groups(const tensor_view &tensor, int64_t groups) {
    const auto &dims = tensor.dims;
    const auto &strides = tensor.strides;
    const int64_t channels = dims[1] / groups;
    return {tensor.type, {dims[0], groups, channels, dims[2], dims[3], dims[4]},
            {strides[0], channels * strides[1], strides[1], strides[2],
                    strides[3], strides[4]}};
}

/// Of a tensor as the kernel sees it, whose groups have so many channels.
channel_chunks chunks_of(
        const tensor_view &seen, int64_t groups, int64_t of_group) {
    const auto all = static_cast<int>(seen.dims[1]);
    return {static_cast<int>(of_group),
            static_cast<int>(ceil_div(of_group, chunk_channels)),
            all / static_cast<int>(groups), all - chunk_channels};
}

/// The last axis of a thread's: W, or of planes H.
std::array<size_t, 3> axes_of(bool planes) {
    if (planes) return {0, 2, 1};
    return {0, 1, 2};
}

window_axis axis_of(const convolution_problem &problem, size_t i, bool to_src) {
    window_axis axis;
    const auto src = static_cast<int>(problem.src.dims[i + 2]);
    const auto dst = static_cast<int>(problem.dst.dims[i + 2]);
    axis.read = to_src ? dst : src;
    axis.written = to_src ? src : dst;
    axis.kernel = static_cast<int>(problem.weights.dims[i + 3]);
    axis.stride = static_cast<int>(problem.strides[i]);
    axis.dilation = static_cast<int>(problem.dilations[i]);
    const auto pad = static_cast<int>(problem.pads_begin[i]);
    axis.base = -pad;
    axis.move = axis.dilation;
    if (to_src) {
        const int common = std::gcd(axis.stride, axis.dilation);
        axis.base = pad - (axis.kernel - 1) * axis.dilation;
        axis.tap_step = std::min(axis.stride / common, axis.kernel);
        axis.move = axis.dilation / common;
    }
    return axis;
}

/// Neighbouring threads with a unit each: as many as leave the fewest idle.
int lanes_of(int units) {
    int lanes = 32;
    while (lanes > 1
            && (lanes / 2 >= units
                    || (lanes > 8
                            && round_up(units, lanes / 2)
                                    < round_up(units, lanes))))
        lanes /= 2;
    return lanes;
}

/// Runs of one unit.
int64_t items_of(const problem_shape &shape, int64_t images) {
    return images * shape.axes[0].written * shape.axes[1].written * shape.phases
            * shape.by_groups.by;
}

/// Parts, of so many blocks each, that fill so many places: a few times, where once
/// would leave many of them empty.
int64_t fill_of(int64_t places, int64_t blocks) {
    constexpr int64_t most_times = 4;
    int64_t best = 0;
    int64_t best_times = 1;
    for (int64_t times = 1; times <= most_times; ++times) {
        const int64_t parts = times * places / blocks;
        // By a tenth of the time at least.
        if (10 * times * best < 9 * best_times * parts || best == 0) {
            best = parts;
            best_times = times;
        }
    }
    return best;
}

problem_shape shape_of(const convolution_problem &problem, bool planes) {
    problem_shape shape;
    const bool to_src = is_to_src(problem);
    const tensor_view &read = to_src ? problem.dst : problem.src;
    const tensor_view &written = to_src ? problem.src : problem.dst;
    const auto &weights = problem.weights;
    shape.planes = planes;
    shape.to_src = to_src;
    const size_t read_axis = to_src ? 1 : 2;
    const size_t written_axis = to_src ? 2 : 1;
    shape.read = chunks_of(read, weights.dims[0], weights.dims[read_axis]);
    shape.written
            = chunks_of(written, weights.dims[0], weights.dims[written_axis]);
    shape.weights_strides[0] = weights.strides[0];
    shape.weights_strides[1] = weights.strides[written_axis];
    shape.weights_strides[2] = weights.strides[read_axis];
    std::copy_n(read.strides.begin(), 2, shape.read_strides);
    std::copy_n(written.strides.begin(), 2, shape.written_strides);
    const std::array<size_t, 3> axes = axes_of(planes);
    for (size_t i = 0; i < 3; ++i) {
        shape.axes[i] = axis_of(problem, axes[i], to_src);
        shape.read_strides[i + 2] = read.strides[axes[i] + 2];
        shape.written_strides[i + 2] = written.strides[axes[i] + 2];
        shape.weights_strides[i + 3] = weights.strides[axes[i] + 3];
    }
    shape.units = static_cast<int>(weights.dims[0]) * shape.written.chunks
            * (is_of_weights(problem) ? shape.read.chunks : 1);
    shape.lanes = planes ? 1 : lanes_of(shape.units);
    shape.unit_tiles = ceil_div(shape.units, shape.lanes);
    const window_axis &along = shape.axes[2];
    shape.run_step = to_src ? along.stride : 1;
    shape.run_move = to_src ? 1 : along.stride;
    shape.phases = std::min(shape.run_step, along.written);
    const int groups
            = ceil_div(ceil_div(along.written, shape.run_step), run_positions);
    shape.by_down = exact_divider(shape.axes[1].written);
    shape.by_groups = exact_divider(groups);
    shape.by_phases = exact_divider(shape.phases);
    shape.by_deep = exact_divider(shape.axes[0].written);
    shape.by_lanes = exact_divider(shape.lanes);
    shape.by_tiles = exact_divider(shape.unit_tiles);
    shape.items = static_cast<uint32_t>(items_of(shape, read.dims[0]));
    return shape;
}

weights_parts cut(const convolution_problem &problem,
        const problem_shape &shape, int64_t items, const gpu_facts &device) {
    weights_parts parts;
    const bool f64 = problem.src.type == data_type::f64;
    const window_axis &along = shape.axes[2];
    parts.taps = along.kernel > 1 && along.dilation == 1 && along.stride <= 2
            ? 3
            : 1;
    parts.chunks = ceil_div(along.kernel, parts.taps);
    parts.jobs = shape.axes[0].kernel * shape.axes[1].kernel * parts.chunks;
    parts.job_blocks = ceil_div(parts.jobs, weights_warps);
    parts.block_jobs = ceil_div(parts.jobs, parts.job_blocks);
    const auto &weights = problem.weights.dims;
    const std::array<int64_t, 3> numbers {
            weights[4] * weights[5], weights[5], 1};
    for (size_t i = 0; i < 3; ++i)
        parts.tap_numbers[i]
                = static_cast<int>(numbers[axes_of(shape.planes)[i]]);
    parts.window = static_cast<int>(weights[3] * numbers[0]);
    parts.channels = static_cast<int>(weights[0] * weights[1]);
    parts.weights = weights[2] * parts.window * parts.channels;
    const int64_t runs = ceil_div(items, 32 / shape.lanes);
    // Not a block more than there is place for.
    const int64_t resident = f64
            ? device.registers / (32 * parts.block_jobs * f64_registers)
            : weights_blocks(size_of(problem.src.type));
    const int64_t fill = fill_of(device.multiprocessors * resident,
            int64_t {parts.job_blocks} * shape.unit_tiles);
    const int64_t least = ceil_div(
            runs * run_positions, f64 ? longest_f64_chain : longest_chain);
    parts.parts = static_cast<uint32_t>(
            std::clamp<int64_t>(std::max(fill, least), 1, runs));
    return parts;
}

/// Why it cannot be done as it is cut; empty where it can.
std::string reason_against(const convolution_problem &problem,
        const problem_shape &shape, int64_t items, const weights_parts &parts) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    const bool of_weights = is_of_weights(problem);
    const int64_t bytes = size_of(problem.src.type);
    const int64_t slots = (of_weights ? 32 : data_threads(bytes)) / shape.lanes;
    const int64_t blocks = of_weights ? int64_t {parts.parts} * parts.job_blocks
                                      : ceil_div(items, slots);
    const int64_t weights
            = of_weights ? parts.weights : gathered_weights(shape);
    if (items > most - slots || blocks > most / shape.unit_tiles
            || weights > most)
        return text("takes fewer than 2^31 tiles and weights, given ", items,
                " tiles and ", weights, " weights");
    for (const int64_t stride :
            {shape.read_strides[4], shape.written_strides[4]})
        if (stride * bytes > most / shape.run_move)
            return text("takes neighbouring positions less than 2^31 bytes "
                        "apart, given a stride of ",
                    stride);
    return {};
}

/// Whether a thread's positions are along H: rows without gaps, and not so few
/// of them, or columns, that most of a thread or a warp would have nothing to
/// do.
bool takes_planes(const convolution_problem &problem) {
    const bool to_src = is_to_src(problem);
    const tensor_view &written = to_src ? problem.src : problem.dst;
    const int64_t rows
            = ceil_div(written.dims[3], to_src ? problem.strides[1] : 1);
    return problem.src.strides[4] == 1 && problem.dst.strides[4] == 1
            && problem.src.dims[1] >= chunk_channels
            && problem.dst.dims[1] >= chunk_channels
            && written.dims[4] >= fewest_columns
            && 2 * rows >= round_up(rows, run_positions);
}

/// Why not; empty where the kernels take it.
std::string reason_against(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    double taps = static_cast<double>(weights[0]);
    for (size_t axis = 3; axis < weights.size(); ++axis)
        taps *= static_cast<double>(weights[axis]);
    if (axes_exceed(problem, most_points) || taps > most_points
            || std::max({problem.src.dims[0], problem.src.dims[1],
                       problem.dst.dims[1]})
                    > most_points)
        return "takes at most 2^26 images, channels, groups times taps, and "
               "points along an axis; "
                + given(problem);
    const int64_t chain = terms_of_data(problem);
    if (!is_of_weights(problem) && chain > longest_data_chain)
        return text("takes sums of at most ", longest_data_chain,
                " terms, given ", chain);
    return {};
}

/// Whether a tensor of NXC is read where it lies.
bool reads_channels_last(const tensor_view &tensor) {
    if (tensor.strides[1] != 1) return false;
    for (const size_t axis : {0U, 2U, 3U, 4U})
        if (tensor.dims[axis] > 1 && tensor.strides[axis] % chunk_channels != 0)
            return false;
    return true;
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const std::string reason = reason_against(problem);
    if (!reason.empty()) return plan_or_refusal::refuse(reason);
    const bool planes = takes_planes(problem);
    const int64_t groups = problem.weights.dims[0];
    const size_t output = output_of(problem.direction);
    convolution_problem seen = problem;
    const auto data_operand = [&](tensor_view &tensor, bool is_output) {
        const tensor_view callers = tensor;
        if (!planes) {
            tensor.dims[1] = groups
                    * round_up(callers.dims[1] / groups, chunk_channels);
            if (tensor.dims != callers.dims || !reads_channels_last(callers))
                tensor = dense_channels_last(tensor);
        }
        return operand_of(with_groups(callers, groups),
                with_groups(tensor, groups), is_output);
    };
    const std::array<convolution_operand, 3> operands {
            data_operand(seen.src, output == 0),
            operand_of(problem.weights, seen.weights, output == 1),
            data_operand(seen.dst, output == 2)};
    const problem_shape shape = shape_of(seen, planes);
    const int64_t items = items_of(shape, seen.src.dims[0]);
    weights_parts parts;
    if (is_of_weights(seen))
        parts = cut(seen, shape, items,
                properties_of(static_cast<int>(options.device)));
    const std::string refusal = reason_against(seen, shape, items, parts);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const launcher launch = is_of_weights(seen)
            ? weights_launcher(seen, shape, parts)
            : data_launcher(seen, shape);
    const int64_t sum_bytes = seen.src.type == data_type::f64 ? 8 : 4;
    const size_t own_bytes = is_of_weights(seen)
            ? partial_weights_bytes(seen, parts.parts)
            : static_cast<size_t>(gathered_weights(shape) * sum_bytes);
    const auto launches = [launch](const operand_data &data, std::byte *own,
                                  const launch_stream &stream) {
        launch({data[0], data[1], data[2], own}, stream);
    };
    return within_workspace_limit(
            std::make_unique<staged_convolution>(staged_work {
                    operands, output, own_bytes, launches, "CUDA"}),
            options, "its copies and sums");
}

} // namespace gradnn::gpu::narrow_groups
