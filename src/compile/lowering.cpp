#include "compile/lowering.hpp"

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "kernel/convolution_window.hpp"
#include "op/labels.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using dims = logical_tensor::dims;

constexpr port_reference input(size_t index) {
    return {false, index};
}
constexpr port_reference output(size_t index) {
    return {true, index};
}

bool has_elements(const logical_tensor &lt) {
    const auto shape = dims_of(lt);
    return std::find(shape.begin(), shape.end(), 0) == shape.end();
}

tensor_view view_of(const checked_op &the_op, const logical_tensor &lt) {
    const auto shape = dims_of(lt);
    const auto strides = strides_of(lt);
    const auto channels = static_cast<size_t>(
            channel_axis(the_op, static_cast<int>(shape.size())));
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const size_t spatial_rank = shape.size() - 2;
    tensor_view view;
    view.type = lt.get_data_type();
    view.dims = {shape[0], shape[channels], 1, 1, 1};
    view.strides = {stride_of(shape[0], strides[0]),
            stride_of(shape[channels], strides[channels]), 0, 0, 0};
    for (size_t axis = 0; axis < spatial_rank; ++axis) {
        const size_t place = 5 - spatial_rank + axis;
        view.dims[place] = shape[first + axis];
        view.strides[place]
                = stride_of(shape[first + axis], strides[first + axis]);
    }
    return view;
}

weights_view weights_of(
        const checked_op &the_op, const logical_tensor &lt, int64_t groups) {
    const auto shape = dims_of(lt);
    const auto strides = strides_of(lt);
    const weights_axes axes
            = weights_axes_of(the_op, static_cast<int>(shape.size()));
    const auto small = static_cast<size_t>(axes.small);
    const auto large = static_cast<size_t>(axes.large);
    const size_t spatial_rank = shape.size() - 2;
    weights_view view;
    view.type = lt.get_data_type();
    const int64_t small_of_group = shape[small] / groups;
    view.dims = {groups, small_of_group, shape[large], 1, 1, 1};
    view.strides = {stride_of(groups, strides[small] * small_of_group),
            stride_of(small_of_group, strides[small]),
            stride_of(shape[large], strides[large]), 0, 0, 0};
    for (size_t axis = 0; axis < spatial_rank; ++axis) {
        const auto from = static_cast<size_t>(axes.spatial) + axis;
        const size_t place = 6 - spatial_rank + axis;
        view.dims[place] = shape[from];
        view.strides[place] = stride_of(shape[from], strides[from]);
    }
    return view;
}

// Interpolation.

lowered_step lower_interpolation(const checked_op &the_op) {
    interpolation_problem problem;
    const bool forward = is_forward_interpolation(the_op);
    const port_reference read = input(forward ? 0 : 1);
    const auto sizes = static_cast<size_t>(
            port_index(the_op.schema().inputs, port_role::shape));
    problem.diff_dst = view_of(the_op, the_op.port(read));
    problem.diff_src = view_of(the_op, the_op.outputs[0]);
    const op_attributes &attributes = the_op.attributes();
    problem.mode = attributes.mode;
    problem.coordinates = attributes.coordinates;
    // With sizes, scales are void. Ratios are not.
    const bool given = attributes.scale_rule == scale_rule::given
            && attributes.sizes.empty() && the_op.inputs[sizes].is_absent();
    const size_t padding = 5 - the_op.inputs[0].get_dims().size();
    for (size_t axis = 0; axis < 3; ++axis) {
        interpolation_axis &a = problem.axes[axis];
        a.src = problem.diff_src.dims[2 + axis];
        a.dst = problem.diff_dst.dims[2 + axis];
        a.forward = forward;
        if (axis < padding) continue;
        a.cubic_coeff_a = attributes.cubic_coeff_a;
        a.antialias = attributes.antialias;
        a.exclude_outside = attributes.exclude_outside;
        a.arithmetic = attributes.arithmetic;
        a.scale_given = given;
        if (given) a.scale = attributes.scales[axis - padding];
        a.ratio_given = attributes.scale_rule == scale_rule::ratios;
        if (a.ratio_given) a.ratio = attributes.ratios[axis - padding];
    }
    return {problem, {read, output(0)}};
}

// Convolution.

lowered_step zero_fill(const checked_op &the_op, port_reference port);

/// Kernels multiply positions of windows, those outside src too, by strides of
/// the tensors and by element sizes of up to 8 bytes.
void check_offsets(
        const checked_op &the_op, const convolution_problem &problem) {
    constexpr __int128 most = __int128 {1} << 58;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t reach = window_reach(problem, axis);
        const int64_t stride = std::max(
                problem.src.strides[axis + 2], problem.dst.strides[axis + 2]);
        if (__int128 {reach} * stride > most)
            fail_shape(the_op,
                    text("spatial axis ", axis, " of D, H, W: windows reach ",
                            reach, " elements at a memory stride of ", stride,
                            "; a product of at most 2^58 is allowed"));
    }
}

/// Builds the convolution that relates the large, the small and the weights
/// port, one of them the output.
lowered_step lower_convolution(const checked_op &the_op, port_reference large,
        port_reference small, port_reference weights) {
    const convolution_geometry geometry = geometry_of(
            the_op, dims_of(the_op.port(large)), dims_of(the_op.port(weights)));
    convolution_problem problem;
    problem.src = view_of(the_op, the_op.port(large));
    problem.dst = view_of(the_op, the_op.port(small));
    problem.weights = weights_of(the_op, the_op.port(weights), geometry.groups);
    problem.direction = large.output ? convolution_direction::backward_data
            : small.output           ? convolution_direction::forward
                                     : convolution_direction::backward_weights;
    const auto spatial_rank = static_cast<size_t>(geometry.spatial_rank);
    for (size_t axis = 0; axis < spatial_rank; ++axis) {
        const size_t place = 3 - spatial_rank + axis;
        problem.strides[place] = geometry.strides[axis];
        problem.dilations[place] = geometry.dilations[axis];
        problem.pads_begin[place] = geometry.pads_begin[axis];
    }
    if (!simplify_windows(problem)) {
        for (const port_reference port : {large, small, weights})
            if (port.output) return zero_fill(the_op, port);
    }
    check_offsets(the_op, problem);
    return {problem, {large, weights, small}};
}

lowered_step lower_bias(const checked_op &the_op, port_reference diff_bias) {
    const logical_tensor &lt = the_op.port(diff_bias);
    bias_problem problem;
    problem.diff_dst = view_of(the_op, the_op.inputs[0]);
    problem.diff_bias_type = lt.get_data_type();
    problem.diff_bias_stride = stride_of(lt.get_dims()[0], lt.get_strides()[0]);
    return {problem, {input(0), diff_bias}};
}

/// Every output of a convolution op comes from one lowered convolution, whose
/// other two tensors are found among the inputs by their roles.
lowered_step lower_convolution_output(const checked_op &the_op, size_t index) {
    const op_schema &schema = the_op.schema();
    const port_role role = schema.outputs[index].role;
    if (role == port_role::bias) return lower_bias(the_op, output(index));
    const auto find = [&](port_role wanted) {
        return wanted == role
                ? output(index)
                : input(static_cast<size_t>(port_index(schema.inputs, wanted)));
    };
    return lower_convolution(the_op, find(port_role::large),
            find(port_role::small), find(port_role::weights));
}

// Elementwise.

/// Dims in the order of descending strides of the last operand, neighbours
/// merged where every operand steps through both as through one.
elementwise_problem merged(elementwise_kind kind, data_type type,
        const dims &shape, const std::vector<dims> &strides) {
    std::vector<size_t> order;
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] != 1) order.push_back(axis);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return strides.back()[a] > strides.back()[b];
    });
    elementwise_problem problem;
    problem.kind = kind;
    problem.type = type;
    const std::array<std::array<int64_t, elementwise_problem::max_rank> *, 3>
            targets {&problem.a_strides, &problem.b_strides,
                    &problem.out_strides};
    const size_t skipped = targets.size() - strides.size();
    for (const size_t axis : order) {
        const auto last = static_cast<size_t>(std::max(problem.rank - 1, 0));
        bool merges = problem.rank > 0;
        for (size_t i = 0; merges && i < strides.size(); ++i)
            merges = (*targets[skipped + i])[last]
                    == shape[axis] * strides[i][axis];
        const auto place = merges ? last : static_cast<size_t>(problem.rank++);
        problem.dims[place]
                = merges ? problem.dims[place] * shape[axis] : shape[axis];
        for (size_t i = 0; i < strides.size(); ++i)
            (*targets[skipped + i])[place] = strides[i][axis];
    }
    if (problem.rank == 0) {
        problem.rank = 1;
        problem.dims[0] = 1;
    }
    return problem;
}

/// The strides of an input by the axes of `shape`: 0 where it is broadcast.
dims broadcast_strides(const logical_tensor &lt, const dims &shape) {
    const dims own = lt.get_dims();
    const dims strides = lt.get_strides();
    dims result(shape.size(), 0);
    const size_t missing = shape.size() - own.size();
    for (size_t axis = 0; axis < own.size(); ++axis)
        if (own[axis] == shape[missing + axis])
            result[missing + axis] = strides[axis];
    return result;
}

lowered_step lower_elementwise(const checked_op &the_op) {
    const auto &inputs = the_op.inputs;
    const logical_tensor &out = the_op.outputs[0];
    const dims shape = out.get_dims();
    const auto kind = the_op.identity().get_kind() == op::kind::Add
            ? elementwise_kind::add
            : elementwise_kind::relu_backward;
    return {merged(kind, out.get_data_type(), shape,
                    {broadcast_strides(inputs[0], shape),
                            broadcast_strides(inputs[1], shape),
                            out.get_strides()}),
            {input(0), input(1), output(0)}};
}

lowered_step zero_fill(const checked_op &the_op, port_reference port) {
    const logical_tensor &lt = the_op.port(port);
    return {merged(elementwise_kind::zero_fill, lt.get_data_type(),
                    lt.get_dims(), {lt.get_strides()}),
            {port}};
}

lowered_step lower_output(const checked_op &the_op, size_t index) {
    switch (the_op.schema().family) {
        case op_family::interpolation: return lower_interpolation(the_op);
        case op_family::convolution:
        case op_family::transposed:
            return lower_convolution_output(the_op, index);
        case op_family::bias: return lower_bias(the_op, output(index));
        case op_family::elementwise: break;
    }
    return lower_elementwise(the_op);
}

} // namespace

std::vector<lowered_step> lower(const checked_op &the_op) {
    std::vector<lowered_step> steps;
    steps.reserve(the_op.outputs.size());
    for (size_t index = 0; index < the_op.outputs.size(); ++index) {
        const logical_tensor &lt = the_op.outputs[index];
        if (lt.is_absent() || !has_elements(lt)) continue;
        lowered_step &step = steps.emplace_back(lower_output(the_op, index));
        const bool over_nothing = std::any_of(step.arguments.begin(),
                step.arguments.end(), [&](port_reference port) {
                    return !has_elements(the_op.port(port));
                });
        if (over_nothing) step = zero_fill(the_op, output(index));
        step.output = index;
    }
    return steps;
}

void lay_channels_last(checked_op &the_op, lowered_step &step) {
    logical_tensor &lt = the_op.outputs[step.output];
    const dims shape = lt.get_dims();
    const auto channels = static_cast<size_t>(
            channel_axis(the_op, static_cast<int>(shape.size())));
    dims strides(shape.size(), 1);
    int64_t next = shape[channels];
    for (size_t axis = shape.size(); axis-- > 0;) {
        if (axis == channels) continue;
        strides[axis] = next;
        next *= shape[axis];
    }
    lt = {lt.get_id(), lt.get_data_type(), shape, strides,
            lt.get_property_type()};
    auto &problem = std::get<convolution_problem>(step.problem);
    const bool writes_src
            = problem.direction == convolution_direction::backward_data;
    (writes_src ? problem.src : problem.dst) = view_of(the_op, lt);
    check_offsets(the_op, problem);
}

} // namespace gradnn::detail
