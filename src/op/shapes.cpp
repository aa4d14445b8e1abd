// The way into the shape rules, and those of bias gradients and elementwise
// ops, which are short. Interpolations and convolutions have a file each.
#include "op/shapes.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "op/labels.hpp"
#include "op/shape_rules.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

/// Numpy's rule: from the last axis on, dims are equal or one of them is 1;
/// missing ones are 1. An unknown dim stays unknown.
dims broadcast(const checked_op &the_op, const dims &a, const dims &b) {
    dims result = a.size() >= b.size() ? a : b;
    const dims &other = a.size() >= b.size() ? b : a;
    const size_t missing = result.size() - other.size();
    for (size_t axis = 0; axis < other.size(); ++axis) {
        int64_t &dim = result[missing + axis];
        if (dim == other[axis] || other[axis] == 1) continue;
        if (dim != 1)
            fail_shape(the_op,
                    text("input 0 (src_0) has dims ", text_of(a),
                            " and input 1 (src_1) ", text_of(b),
                            ": they must be equal or broadcast to "
                            "each other"));
        dim = other[axis];
    }
    return result;
}

void shape_elementwise(const checked_op &the_op, output_dims &outputs) {
    if (!broadcasts(the_op)) {
        const role_dims shape = collect(the_op, port_role::element);
        outputs.settle(port_role::element, *shape.known, shape.from);
        return;
    }
    outputs.settle(port_role::element,
            broadcast(the_op, the_op.inputs[0].get_dims(),
                    the_op.inputs[1].get_dims()),
            "the inputs, broadcast");
}

void shape_bias(const checked_op &the_op, output_dims &outputs) {
    const auto shape = dims_of(the_op.inputs[0]);
    const auto channels = static_cast<size_t>(
            channel_axis(the_op, static_cast<int>(shape.size())));
    outputs.settle(port_role::bias, {shape[channels]},
            "the channels of input 0 (diff_dst)");
}

std::vector<int64_t> expected_by(
        const checked_op &the_op, const logical_tensor &first_output) {
    if (the_op.schema().family != op_family::interpolation)
        return first_output.get_dims();
    const auto resized = dims_of(
            is_forward_interpolation(the_op) ? first_output : the_op.inputs[1]);
    const auto spatial
            = resized.subspan(static_cast<size_t>(first_spatial_axis(the_op)),
                    resized.size() - 2);
    return {spatial.begin(), spatial.end()};
}

void check_shape_input(
        const checked_op &the_op, const logical_tensor &first_output) {
    const int index = port_index(the_op.schema().inputs, port_role::shape);
    if (index < 0) return;
    const port_reference port {false, static_cast<size_t>(index)};
    const logical_tensor &lt = the_op.port(port);
    if (lt.is_absent() || !dims_known(lt)) return;
    const auto expected
            = static_cast<int64_t>(expected_by(the_op, first_output).size());
    if (lt.get_dims() != dims {expected})
        fail_shape(the_op,
                text(port_label(the_op, port), " has dims ",
                        text_of(dims_of(lt)), "; [", expected, "] is allowed"));
}

} // namespace

std::vector<logical_tensor> outputs_with_dims(
        const checked_op &the_op, bool complete) {
    output_dims shapes(the_op);
    switch (the_op.schema().family) {
        case op_family::interpolation:
            shape_interpolation(the_op, shapes, complete);
            break;
        case op_family::convolution:
        case op_family::transposed:
            shape_convolution(the_op, shapes, complete);
            break;
        case op_family::bias: shape_bias(the_op, shapes); break;
        case op_family::elementwise: shape_elementwise(the_op, shapes); break;
    }
    std::vector<logical_tensor> outputs = shapes.take();
    if (std::all_of(
                outputs.begin(), outputs.end(), [](const logical_tensor &lt) {
                    return lt.is_absent() || dims_known(lt);
                }))
        check_shape_input(the_op, outputs[0]);
    return outputs;
}

bool broadcasts(const checked_op &the_op) {
    return the_op.identity().get_kind() == op::kind::Add
            && the_op.attributes().numpy_broadcast;
}

bool is_forward_interpolation(const checked_op &the_op) {
    return the_op.identity().get_kind() == op::kind::Interpolate;
}

int channel_axis(const checked_op &the_op, int rank) {
    return the_op.attributes().data_format == data_format::ncx ? 1 : rank - 1;
}

int first_spatial_axis(const checked_op &the_op) {
    return the_op.attributes().data_format == data_format::ncx ? 2 : 1;
}

weights_axes weights_axes_of(const checked_op &the_op, int rank) {
    if (the_op.attributes().weights_format == weights_format::channels_first)
        return {0, 1, 2};
    return {rank - 1, rank - 2, 0};
}

std::vector<int64_t> expected_shape_input(const checked_op &the_op) {
    return expected_by(the_op, the_op.outputs[0]);
}

} // namespace gradnn::detail
