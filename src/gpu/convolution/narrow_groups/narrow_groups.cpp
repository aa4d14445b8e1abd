// Convolution with groups of 4 or 8 channels in and out, all directions: plain
// products in f32, of f64 in f64.
//
//     forward, backward_data   data.cu
//     backward_weights         weights.cu
//
// On tensor cores such groups fill a small part of a tile; memory has time for
// plain products. src and dst both have contiguous channels, at multiples of 4
// (NXC), or both contiguous columns (NCX); what has neither is copied to dense
// NXC through the workspace. So are planes of few rows or columns, of which
// threads would have little to do. Weights may have any strides.
//
// Workspace: the copies; the weights in the order of the threads and the type
// of sums; of backward_weights partial sums, as many for each weight as it
// takes to fill the device once and to keep chains of f32 sums to about 1024
// terms.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "gpu/convolution/narrow_groups/shape.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "problem_text.hpp"
#include "text.hpp"

namespace gradnn::gpu::narrow_groups {

namespace {

using detail::convolution_direction;
using detail::data_type;
using detail::size_of;
using detail::tensor_view;
using detail::text;

/// Of the weights' partial sums, and of data.
constexpr int64_t longest_chain = 1024;
constexpr int64_t longest_f64_chain = 4096;
constexpr int64_t longest_data_chain = 4096;
/// Of the weights gradient, by their registers on a multiprocessor.
constexpr int64_t resident_f64_warps = 8;
/// Points along an axis.
constexpr int64_t most_points = int64_t {1} << 26;
/// A warp of fewer columns reads short pieces of rows.
constexpr int64_t fewest_columns = 4;

/// Of the caller's tensor, which the kernel sees as `seen`.
template <typename View>
convolution_operand operand_of(
        const View &callers, const View &seen, bool is_output) {
    convolution_operand operand;
    operand.staged = callers.strides != seen.strides;
    strided_copy &copy = operand.copy;
    copy.src_type = copy.dst_type = callers.type;
    copy.rank = static_cast<int>(callers.dims.size());
    copy.dims.fill(1);
    int64_t last = 0;
    for (size_t axis = 0; axis < callers.dims.size(); ++axis) {
        last += (callers.dims[axis] - 1) * seen.strides[axis];
        // Where all positions are one, that one is copied.
        if (seen.strides[axis] == 0) continue;
        copy.dims[axis] = callers.dims[axis];
        copy.src_strides[axis] = (is_output ? seen : callers).strides[axis];
        copy.dst_strides[axis] = (is_output ? callers : seen).strides[axis];
    }
    operand.bytes = static_cast<size_t>((last + 1) * size_of(callers.type));
    return operand;
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

class groups_plan final : public staged_convolution {
public:
    groups_plan(const convolution_problem &problem,
            const convolution_problem &seen, bool planes,
            const std::array<convolution_operand, 3> &operands, size_t output,
            int64_t multiprocessors)
        : staged_convolution({operands[0], operands[1], operands[2], output}),
          type_(problem.src.type),
          weights_type_(problem.weights.type),
          direction_(problem.direction),
          copies_(copies_of(operands)) {
        set_shape(seen, planes);
        if (of_weights()) cut(multiprocessors);
    }

    /// Why it cannot be done after all; empty where it can.
    std::string refusal() const {
        constexpr int64_t most = std::numeric_limits<int32_t>::max();
        const int64_t slots = (of_weights() ? 32 : data_threads(size_of(type_)))
                / shape_.lanes;
        const int64_t blocks = of_weights()
                ? int64_t {parts_.parts} * parts_.job_blocks
                : ceil_div(items_, slots);
        const int64_t weights
                = of_weights() ? parts_.sums() : gathered_weights(shape_);
        if (items_ > most - slots || blocks > most / shape_.unit_tiles
                || weights > most)
            return text("takes fewer than 2^31 tiles and weights, given ",
                    items_, " tiles and ", weights, " weights");
        for (const int64_t stride :
                {shape_.read_strides[4], shape_.written_strides[4]})
            if (stride * size_of(type_) > most / shape_.run_move)
                return text("takes neighbouring positions less than 2^31 bytes "
                            "apart, given a stride of ",
                        stride);
        return {};
    }

    std::string backend() const override {
        return copies_.empty() ? "CUDA"
                               : text("CUDA (", copies_, shared_copies(), ")");
    }

private:
    bool of_weights() const {
        return direction_ == convolution_direction::backward_weights;
    }

    size_t own_bytes() const override {
        const int64_t sums = of_weights()
                ? int64_t {parts_.parts} * parts_.sums()
                : gathered_weights(shape_);
        return static_cast<size_t>(sums)
                * (type_ == data_type::f64 ? sizeof(double) : sizeof(float));
    }

    void run(const std::array<void *, 3> &data, std::byte *own,
            const launch_stream &stream) const override {
        const bool to_src = shape_.to_src;
        const tensor_pointers pointers {
                data[to_src ? 2 : 0], data[1], data[to_src ? 0 : 2], own};
        if (of_weights())
            launch_weights(
                    type_, weights_type_, shape_, parts_, pointers, stream);
        else
            launch_data(type_, shape_, pointers, stream);
    }

    void set_shape(const convolution_problem &problem, bool planes) {
        problem_shape &shape = shape_;
        const bool to_src = direction_ == convolution_direction::backward_data;
        const tensor_view &read = to_src ? problem.dst : problem.src;
        const tensor_view &written = to_src ? problem.src : problem.dst;
        const auto &weights = problem.weights;
        shape.planes = planes;
        shape.to_src = to_src;
        const size_t read_axis = to_src ? 1 : 2;
        const size_t written_axis = to_src ? 2 : 1;
        shape.read_chunks
                = static_cast<int>(weights.dims[read_axis]) / chunk_channels;
        shape.written_chunks
                = static_cast<int>(weights.dims[written_axis]) / chunk_channels;
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
        shape.units = static_cast<int>(weights.dims[0]) * shape.written_chunks
                * (of_weights() ? shape.read_chunks : 1);
        shape.lanes = planes ? 1 : lanes_of(shape.units);
        shape.unit_tiles = ceil_div(shape.units, shape.lanes);
        const window_axis &along = shape.axes[2];
        shape.run_step = to_src ? along.stride : 1;
        shape.run_move = to_src ? 1 : along.stride;
        shape.phases = std::min(shape.run_step, along.written);
        const int groups = ceil_div(
                ceil_div(along.written, shape.run_step), run_positions);
        items_ = read.dims[0] * shape.axes[0].written * shape.axes[1].written
                * shape.phases * groups;
        shape.items = static_cast<uint32_t>(items_);
        shape.by_down = exact_divider(shape.axes[1].written);
        shape.by_groups = exact_divider(groups);
        shape.by_phases = exact_divider(shape.phases);
        shape.by_deep = exact_divider(shape.axes[0].written);
        shape.by_lanes = exact_divider(shape.lanes);
        shape.by_tiles = exact_divider(shape.unit_tiles);
    }

    void cut(int64_t multiprocessors) {
        const window_axis &along = shape_.axes[2];
        parts_.taps
                = along.kernel > 1 && along.dilation == 1 && along.stride <= 2
                ? 3
                : 1;
        parts_.chunks = ceil_div(along.kernel, parts_.taps);
        parts_.jobs
                = shape_.axes[0].kernel * shape_.axes[1].kernel * parts_.chunks;
        parts_.job_blocks = ceil_div(parts_.jobs, weights_warps);
        parts_.block_jobs = ceil_div(parts_.jobs, parts_.job_blocks);
        parts_.padded_units = shape_.unit_tiles * shape_.lanes;
        const int64_t runs = ceil_div(items_, 32 / shape_.lanes);
        // Not a block more than there is place for at a time.
        const int64_t resident = type_ == data_type::f64
                ? resident_f64_warps / parts_.block_jobs
                : weights_blocks(size_of(type_));
        const int64_t fill = multiprocessors * resident
                / (int64_t {parts_.job_blocks} * shape_.unit_tiles);
        const int64_t least = ceil_div(runs * run_positions,
                type_ == data_type::f64 ? longest_f64_chain : longest_chain);
        parts_.parts = static_cast<uint32_t>(
                std::clamp<int64_t>(std::max(fill, least), 1, runs));
    }

    data_type type_;
    data_type weights_type_;
    convolution_direction direction_;
    std::string copies_;
    problem_shape shape_;
    weights_parts parts_;
    int64_t items_ = 0;
};

/// Whether a thread's positions are along H: rows without gaps, and not so few
/// of them, or columns, that most of a thread or a warp would have nothing to
/// do.
bool takes_planes(const convolution_problem &problem) {
    const bool to_src
            = problem.direction == convolution_direction::backward_data;
    const tensor_view &written = to_src ? problem.src : problem.dst;
    const int64_t rows
            = ceil_div(written.dims[3], to_src ? problem.strides[1] : 1);
    return problem.src.strides[4] == 1 && problem.dst.strides[4] == 1
            && written.dims[4] >= fewest_columns
            && 2 * rows >= round_up(rows, run_positions);
}

/// Why not; empty where the kernels take it.
std::string reason_against(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    const auto narrow
            = [](int64_t channels) { return channels == 4 || channels == 8; };
    if (weights[0] < 2 || !narrow(weights[1]) || !narrow(weights[2]))
        return text("takes several groups of 4 or 8 input and 4 or 8 output "
                    "channels, given ",
                weights[0], " of ", weights[2], " and ", weights[1]);
    if (axes_exceed(problem, most_points))
        return "takes less than 2^26 points along an axis; " + given(problem);
    int64_t window = weights[0];
    for (size_t i = 0; i < 3; ++i) {
        if (weights[i + 3] > most_points / window)
            return "takes less than 2^26 groups times taps; " + given(problem);
        window *= weights[i + 3];
    }
    const bool to_src
            = problem.direction == convolution_direction::backward_data;
    const int64_t chain = window / weights[0] * weights[to_src ? 1 : 2];
    if (problem.direction != convolution_direction::backward_weights
            && chain > longest_data_chain)
        return text("takes sums of at most ", longest_data_chain,
                " terms, given ", chain);
    if (problem.src.dims[0] > most_points)
        return text("takes at most 2^26 images, given ", problem.src.dims[0]);
    return {};
}

} // namespace

bool reads_channels_last(const tensor_view &tensor) {
    if (tensor.strides[1] != 1) return false;
    for (const size_t axis : {0U, 2U, 3U, 4U})
        if (tensor.dims[axis] > 1 && tensor.strides[axis] % chunk_channels != 0)
            return false;
    return true;
}

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const std::string reason = reason_against(problem);
    if (!reason.empty()) return plan_or_refusal::refuse(reason);
    const bool planes = takes_planes(problem);
    convolution_problem seen = problem;
    if (!planes)
        for (tensor_view *tensor : {&seen.src, &seen.dst})
            if (!reads_channels_last(*tensor))
                *tensor = dense_channels_last(*tensor);
    const size_t output = output_of(problem.direction);
    const std::array<convolution_operand, 3> operands {
            operand_of(problem.src, seen.src, output == 0),
            operand_of(problem.weights, seen.weights, output == 1),
            operand_of(problem.dst, seen.dst, output == 2)};
    auto plan = std::make_unique<groups_plan>(problem, seen, planes, operands,
            output,
            properties_of(static_cast<int>(options.device)).multiprocessors);
    const std::string refusal = plan->refusal();
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    return within_workspace_limit(
            std::move(plan), options, "its copies and sums");
}

} // namespace gradnn::gpu::narrow_groups
