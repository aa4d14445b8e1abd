#include "shapes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "logical_tensor_tools.hpp"
#include "op_check.hpp"
#include "text.hpp"

namespace gradnn::detail {

namespace {

using dims = logical_tensor::dims;
using wide = __int128;

constexpr int64_t unknown = logical_tensor::unknown_dim;

/// A port that is there, with its row in the schema.
struct port {
    bool output;
    size_t index;
    const port_row *row;
    const logical_tensor *lt;

    std::string label() const { return port_label(output, index, *row); }
};

std::vector<port> ports_of(const op &the_op, const op_schema &schema) {
    std::vector<port> ports;
    for (size_t i = 0; i < schema.inputs.size(); ++i)
        if (!the_op.get_inputs()[i].is_absent())
            ports.push_back(
                    {false, i, &schema.inputs[i], &the_op.get_inputs()[i]});
    for (size_t i = 0; i < schema.outputs.size(); ++i)
        if (!the_op.get_outputs()[i].is_absent())
            ports.push_back(
                    {true, i, &schema.outputs[i], &the_op.get_outputs()[i]});
    return ports;
}

std::optional<dims> dims_of(const logical_tensor &lt) {
    try {
        return lt.get_dims();
    } catch (const error &) {
        return std::nullopt;
    }
}

bool is_data(port_role role) {
    return role != port_role::shape && role != port_role::bias;
}

/// The dims that ports of one role have: those of inputs come first, and what
/// an output leaves open is filled from `inferred` by settle().
struct role_dims {
    std::optional<dims> known;
    std::string from; ///< what gave them, for messages

    void agree(const op &the_op, const dims &given, const std::string &label) {
        if (!known) {
            known = given;
            from = label;
            return;
        }
        bool same = known->size() == given.size();
        for (size_t i = 0; same && i < given.size(); ++i)
            same = given[i] == unknown || given[i] == (*known)[i];
        if (!same)
            fail_shape(the_op,
                    text(label, " has dims ", text_of(given), "; ",
                            text_of(*known), " are allowed, by ", from));
    }
};

/// What the known ports of a role say, inputs before outputs.
role_dims collect(const op &the_op, const op_schema &schema, port_role role) {
    role_dims result;
    for (const port &p : ports_of(the_op, schema))
        if (p.row->role == role && dims_known(*p.lt))
            result.agree(the_op, p.lt->get_dims(), p.label());
    return result;
}

logical_tensor with_dims(const logical_tensor &lt, const dims &shape) {
    if (lt.get_layout_type() == logical_tensor::layout_type::strided
            && dims_known(lt))
        return lt;
    return {lt.get_id(), lt.get_data_type(), shape, lt.get_layout_type(),
            lt.get_property_type()};
}

/// The op with `shape` as the dims of its outputs of a role, after checking
/// what those say themselves.
void settle(op &the_op, const op_schema &schema, port_role role,
        const dims &shape, const std::string &from) {
    std::vector<logical_tensor> outputs = the_op.get_outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].is_absent() || schema.outputs[i].role != role) continue;
        role_dims wanted {shape, from};
        if (const auto given = dims_of(outputs[i]))
            wanted.agree(
                    the_op, *given, port_label(true, i, schema.outputs[i]));
        outputs[i] = with_dims(outputs[i], shape);
    }
    op result(the_op.get_id(), the_op.get_kind(), the_op.get_inputs(), outputs,
            the_op.get_name());
    for (const auto &[name, value] : the_op.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    the_op = result;
}

void check_shape_input(const op &the_op, const op_schema &schema) {
    const int index = port_index(schema.inputs, port_role::shape);
    if (index < 0) return;
    const auto port = static_cast<size_t>(index);
    const logical_tensor &lt = the_op.get_inputs()[port];
    if (lt.is_absent() || !dims_known(lt)) return;
    const auto expected
            = static_cast<int64_t>(expected_shape_input(the_op).size());
    if (lt.get_dims() != dims {expected})
        fail_shape(the_op,
                text(port_label(false, port, schema.inputs[port]), " has dims ",
                        text_of(lt.get_dims()), "; [", expected,
                        "] is allowed"));
}

// Interpolation.

void check_resize_axis(const op &the_op, size_t axis, int64_t src,
        int64_t resized, float scale) {
    // Exact: a double holds the product of a f32 and a dim below 2^29, and
    // beyond that neighbours of the rounded product differ by less than 1.
    const double product
            = static_cast<double>(src) * static_cast<double>(scale);
    const double floored = std::floor(product);
    const double nearest = std::floor(product + 0.5);
    const auto given = static_cast<double>(resized);
    if (given == floored || given == nearest) return;
    fail_shape(the_op,
            text("input 1 (diff_dst) has ", resized,
                    " elements on spatial axis ", axis, "; ",
                    static_cast<int64_t>(std::min(floored, 9e18)),
                    " (floor) or ",
                    static_cast<int64_t>(std::min(nearest, 9e18)),
                    " (nearest) are allowed, src having ", src,
                    " and attribute scales saying ", scale));
}

void shape_interpolation(op &the_op, const op_schema &schema) {
    const dims src = the_op.get_inputs()[0].get_dims();
    const dims resized = the_op.get_inputs()[1].get_dims();
    const int rank = static_cast<int>(src.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    if (src[0] != resized[0] || src[channels] != resized[channels])
        fail_shape(the_op,
                text("input 1 (diff_dst) has dims ", text_of(resized),
                        " and input 0 (src) ", text_of(src),
                        ": N and C must agree"));
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const size_t spatial_rank = src.size() - 2;
    const auto sizes = get_s64_list(the_op, op::attr::sizes);
    const auto scales = get_f32_list(the_op, op::attr::scales);
    const bool sizes_input = !the_op.get_inputs()[2].is_absent();
    if (sizes.empty() && scales.empty() && !sizes_input)
        fail_op(the_op,
                "neither attribute sizes nor attribute scales is "
                "given, nor input 2 (sizes); one must be");
    if (get_string(the_op, op::attr::scale_rule) == "given" && scales.empty())
        fail_op(the_op,
                "attribute scale_rule is given and attribute scales "
                "is missing");
    for (size_t axis = 0; axis < spatial_rank; ++axis) {
        const int64_t size = resized[first + axis];
        if (!sizes.empty()) {
            if (sizes[axis] != size)
                fail_shape(the_op,
                        text("attribute sizes is ", text_of(sizes),
                                " and input 1 (diff_dst) has dims ",
                                text_of(resized), ": they must agree"));
        } else if (!sizes_input) {
            check_resize_axis(
                    the_op, axis, src[first + axis], size, scales[axis]);
        }
    }
    settle(the_op, schema, port_role::source, src, "input 0 (src)");
}

// Convolution.

int64_t narrow(const op &the_op, wide value, const char *what) {
    if (value < 0 || value > std::numeric_limits<int64_t>::max())
        fail_shape(the_op,
                text("the attributes give ", what,
                        value < 0 ? " a negative size"
                                  : " a size beyond 63 bits"));
    return static_cast<int64_t>(value);
}

struct axis_rule {
    const op &the_op;
    bool same;
    wide effective_kernel;
    wide stride;
    wide pads;
    /// Of dims that are inferred; where both are given it has no say.
    wide output_padding;

    int64_t small_of(int64_t large) const {
        if (same)
            return narrow(the_op, (large + stride - 1) / stride, "the output");
        const wide room = large - output_padding + pads - effective_kernel;
        return narrow(the_op, room < 0 ? 0 : room / stride + 1, "the output");
    }
    int64_t large_of(int64_t small) const {
        if (same) return narrow(the_op, small * stride, "the output");
        return narrow(the_op,
                small == 0 ? wide {0}
                           : (small - 1) * stride + effective_kernel - pads
                                + output_padding,
                "the output");
    }
    /// As in oneDNN Graph, large may have up to stride - 1 elements at its end
    /// that no window reaches; or it is what an output_padding of stride and
    /// more makes of small.
    bool agree(int64_t large, int64_t small) const {
        if (large == 0 || small == 0) return true;
        if (same) return (large + stride - 1) / stride == small;
        const wide rest
                = large + pads - effective_kernel - (small - 1) * stride;
        return rest >= 0 && (rest < stride || rest == output_padding);
    }
};

/// Sum of begin and end pads; auto_pad same_* is dealt with by axis_rule.
axis_rule rule_of(const op &the_op, size_t axis, int64_t kernel) {
    const std::string &auto_pad = get_string(the_op, op::attr::auto_pad);
    const auto list = [&](op::attr name) {
        const auto values = get_s64_list(the_op, name);
        return axis < values.size() ? wide {values[axis]} : wide {0};
    };
    axis_rule rule {the_op,
            auto_pad == "same_upper" || auto_pad == "same_lower",
            (wide {kernel} - 1) * list(op::attr::dilations) + 1,
            list(op::attr::strides), 0, list(op::attr::output_padding)};
    if (auto_pad == "none")
        rule.pads = list(op::attr::pads_begin) + list(op::attr::pads_end);
    return rule;
}

/// Kernels add positions, points of the window and pads in 64 bits: each of
/// them stays below 2^61, so that no sum of them overflows.
void check_reach(const op &the_op, const axis_rule &rule, size_t axis,
        int64_t large, int64_t small) {
    constexpr wide most = wide {1} << 60;
    const wide positions
            = (wide {std::max<int64_t>(small, 1)} - 1) * rule.stride;
    for (const auto &[length, what] :
            {std::pair {wide {large}, "the size goes"},
                    std::pair {positions, "the window's positions go"},
                    std::pair {rule.effective_kernel, "the window goes"}})
        if (length > most)
            fail_shape(the_op,
                    text("spatial axis ", axis, ": ", what,
                            " beyond 2^60 elements; at most 2^60 "
                            "are allowed"));
}

void check_channels(const op &the_op, const dims &large, const dims &small,
        const dims &weights) {
    const int rank = static_cast<int>(large.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    const weights_axes axes = weights_axes_of(the_op, rank);
    const int64_t groups = get_s64(the_op, op::attr::groups);
    const auto say = [&](const std::string &what) {
        fail_shape(the_op,
                text(what, ": weights ", text_of(weights), ", ",
                        find_schema(the_op.get_kind())->family
                                        == op_family::transposed
                                ? "dst "
                                : "src ",
                        text_of(large),
                        find_schema(the_op.get_kind())->family
                                        == op_family::transposed
                                ? ", src "
                                : ", dst ",
                        text_of(small), ", groups ", groups));
    };
    if (large[0] != small[0]) say("batch sizes disagree");
    if (large[channels] % groups != 0 || small[channels] % groups != 0)
        say("attribute groups does not divide the channels");
    if (weights[static_cast<size_t>(axes.small)] != small[channels]
            || weights[static_cast<size_t>(axes.large)]
                    != large[channels] / groups)
        say("channels of weights and data disagree");
}

std::string axis_text(const op &the_op, size_t axis, int64_t large,
        int64_t small, int64_t kernel) {
    const bool transposed
            = find_schema(the_op.get_kind())->family == op_family::transposed;
    return text("spatial axis ", axis, ": ", transposed ? "dst" : "src",
            " size ", large, ", ", transposed ? "src" : "dst", " size ", small,
            ", kernel ", kernel, ", strides ",
            text_of(get_s64_list(the_op, op::attr::strides)), ", pads_begin ",
            text_of(get_s64_list(the_op, op::attr::pads_begin)), ", pads_end ",
            text_of(get_s64_list(the_op, op::attr::pads_end)), ", dilations ",
            text_of(get_s64_list(the_op, op::attr::dilations)), ", auto_pad ",
            get_string(the_op, op::attr::auto_pad), ", output_padding ",
            text_of(get_s64_list(the_op, op::attr::output_padding)),
            " do not fit together");
}

void agree_with_attr(const op &the_op, role_dims &shape, op::attr name) {
    const auto list = get_s64_list(the_op, name);
    if (!list.empty())
        shape.agree(the_op, dims(list.begin(), list.end()),
                text("attribute ", to_string(name)));
}

void shape_convolution(op &the_op, const op_schema &schema, bool complete) {
    role_dims large = collect(the_op, schema, port_role::large);
    role_dims small = collect(the_op, schema, port_role::small);
    role_dims weights = collect(the_op, schema, port_role::weights);
    agree_with_attr(the_op, large, op::attr::dst_shape);
    agree_with_attr(the_op, weights, op::attr::weights_shape);
    if (!weights.known) {
        if (complete)
            fail_shape(the_op,
                    "the dims of output 0 (diff_weights) are "
                    "unknown; give them or attribute weights_shape");
        return;
    }
    const int rank = static_cast<int>(weights.known->size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const weights_axes axes = weights_axes_of(the_op, rank);
    const int64_t groups = get_s64(the_op, op::attr::groups);
    const auto weight_dim = [&](int axis) {
        return (*weights.known)[static_cast<size_t>(axis)];
    };
    const bool large_inferred = !large.known;
    const bool small_inferred = !small.known;
    if (large_inferred) {
        large.known = dims(static_cast<size_t>(rank));
        (*large.known)[0] = (*small.known)[0];
        (*large.known)[channels]
                = narrow(the_op, wide {weight_dim(axes.large)} * groups, "C");
    }
    if (small_inferred) {
        small.known = dims(static_cast<size_t>(rank));
        (*small.known)[0] = (*large.known)[0];
        (*small.known)[channels] = weight_dim(axes.small);
    }
    for (size_t axis = 0; axis < static_cast<size_t>(rank) - 2; ++axis) {
        const int64_t kernel
                = weight_dim(axes.spatial + static_cast<int>(axis));
        if (kernel < 1)
            fail_shape(the_op,
                    text("weights ", text_of(*weights.known),
                            ": kernel sizes must be positive"));
        const axis_rule rule = rule_of(the_op, axis, kernel);
        int64_t &large_dim = (*large.known)[first + axis];
        int64_t &small_dim = (*small.known)[first + axis];
        if (large_inferred) large_dim = rule.large_of(small_dim);
        if (small_inferred) small_dim = rule.small_of(large_dim);
        if (!rule.agree(large_dim, small_dim))
            fail_shape(the_op,
                    axis_text(the_op, axis, large_dim, small_dim, kernel));
        check_reach(the_op, rule, axis, large_dim, small_dim);
    }
    check_channels(the_op, *large.known, *small.known, *weights.known);
    settle(the_op, schema, port_role::large, *large.known, large.from);
    settle(the_op, schema, port_role::small, *small.known, small.from);
    settle(the_op, schema, port_role::weights, *weights.known, weights.from);
    // diff_bias belongs to the channels of dst.
    const dims &dst = schema.family == op_family::transposed ? *large.known
                                                             : *small.known;
    settle(the_op, schema, port_role::bias, {dst[channels]},
            "the channels of input 0 (diff_dst)");
}

// Add.

/// Numpy's rule: from the last axis on, dims are equal or one of them is 1;
/// missing ones are 1. An unknown dim stays unknown.
dims broadcast(const op &the_op, const dims &a, const dims &b) {
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

void shape_elementwise(op &the_op, const op_schema &schema) {
    if (!broadcasts(the_op)) {
        const role_dims shape = collect(the_op, schema, port_role::element);
        settle(the_op, schema, port_role::element, *shape.known, shape.from);
        return;
    }
    const auto &inputs = the_op.get_inputs();
    settle(the_op, schema, port_role::element,
            broadcast(the_op, inputs[0].get_dims(), inputs[1].get_dims()),
            "the inputs, broadcast");
}

} // namespace

bool broadcasts(const op &the_op) {
    return the_op.get_kind() == op::kind::Add
            && get_string(the_op, op::attr::auto_broadcast) == "numpy";
}

int channel_axis(const op &the_op, int rank) {
    return get_string(the_op, op::attr::data_format) == "NCX" ? 1 : rank - 1;
}

int first_spatial_axis(const op &the_op) {
    return get_string(the_op, op::attr::data_format) == "NCX" ? 2 : 1;
}

weights_axes weights_axes_of(const op &the_op, int rank) {
    const std::string &format = get_string(the_op, op::attr::weights_format);
    if (format == "OIX" || format == "IOX") return {0, 1, 2};
    return {rank - 1, rank - 2, 0};
}

void check_ranks(const op &the_op, const op_schema &schema) {
    int rank = -1;
    std::string from;
    for (const port &p : ports_of(the_op, schema)) {
        const auto shape = dims_of(*p.lt);
        if (!shape || !is_data(p.row->role) || broadcasts(the_op)) continue;
        const int given = static_cast<int>(shape->size());
        if (rank >= 0 && given != rank)
            fail_shape(the_op,
                    text(p.label(), " has ", given, " dims and ", from, " ",
                            rank, ": they must agree"));
        rank = given;
        from = p.label();
    }
    if (rank < 0) return;
    const auto wanted = [&](op::attr name) {
        const bool whole = name == op::attr::dst_shape
                || name == op::attr::weights_shape;
        return static_cast<size_t>(whole ? rank : rank - 2);
    };
    for (const attr_row &row : schema.attrs) {
        size_t given = 0;
        if (row.type == attr_type::s64_list)
            given = get_s64_list(the_op, row.name).size();
        else if (row.type == attr_type::f32_list)
            given = get_f32_list(the_op, row.name).size();
        else if (row.type == attr_type::f64_list)
            given = get_f64_list(the_op, row.name).size();
        else
            continue;
        if (!the_op.get_attrs().contains(row.name) || given == wanted(row.name))
            continue;
        // Real files carry longer lists of zeros.
        const auto list = row.name == op::attr::output_padding
                ? get_s64_list(the_op, row.name)
                : std::span<const int64_t>();
        if (given > wanted(row.name) && !list.empty()
                && std::all_of(list.begin(), list.end(),
                        [](int64_t value) { return value == 0; }))
            continue;
        fail_op(the_op,
                text("attribute ", to_string(row.name), " has ", given,
                        " values; ", wanted(row.name),
                        " are allowed for data of ", rank, " dims"));
    }
}

op with_shapes(const op &the_op, bool complete) {
    op result = the_op;
    const op_schema &schema = *find_schema(the_op.get_kind());
    switch (schema.family) {
        case op_family::interpolation:
            shape_interpolation(result, schema);
            break;
        case op_family::convolution:
        case op_family::transposed:
            shape_convolution(result, schema, complete);
            break;
        case op_family::bias: {
            const dims shape = result.get_inputs()[0].get_dims();
            const auto channels = static_cast<size_t>(
                    channel_axis(result, static_cast<int>(shape.size())));
            settle(result, schema, port_role::bias, {shape[channels]},
                    "the channels of input 0 (diff_dst)");
            break;
        }
        case op_family::elementwise: shape_elementwise(result, schema); break;
    }
    const auto &outputs = result.get_outputs();
    const bool settled = std::all_of(
            outputs.begin(), outputs.end(), [](const logical_tensor &lt) {
                return lt.is_absent() || dims_known(lt);
            });
    if (settled) check_shape_input(result, schema);
    return result;
}

convolution_geometry geometry_of(const op &the_op) {
    const op_schema &schema = *find_schema(the_op.get_kind());
    const dims weights = *collect(the_op, schema, port_role::weights).known;
    const dims large = *collect(the_op, schema, port_role::large).known;
    const int rank = static_cast<int>(weights.size());
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const weights_axes axes = weights_axes_of(the_op, rank);
    convolution_geometry result;
    result.spatial_rank = rank - 2;
    result.groups = get_s64(the_op, op::attr::groups);
    const std::string &auto_pad = get_string(the_op, op::attr::auto_pad);
    for (size_t axis = 0; axis < weights.size() - 2; ++axis) {
        result.kernel[axis] = weights[static_cast<size_t>(axes.spatial) + axis];
        result.strides[axis] = get_s64_list(the_op, op::attr::strides)[axis];
        result.dilations[axis]
                = get_s64_list(the_op, op::attr::dilations)[axis];
        if (auto_pad == "none") {
            result.pads_begin[axis]
                    = get_s64_list(the_op, op::attr::pads_begin)[axis];
            result.pads_end[axis]
                    = get_s64_list(the_op, op::attr::pads_end)[axis];
        } else if (auto_pad != "valid") {
            // Total padding such that dst = ceil(src / stride); the odd one
            // goes to the end for same_upper, to the beginning for same_lower.
            const axis_rule rule = rule_of(the_op, axis, result.kernel[axis]);
            const int64_t size = large[first + axis];
            const wide total = std::max<wide>(0,
                    wide {rule.small_of(size) - 1} * rule.stride
                            + rule.effective_kernel - size);
            const auto less = static_cast<int64_t>(total / 2);
            const auto more = static_cast<int64_t>(total - total / 2);
            result.pads_begin[axis] = auto_pad == "same_upper" ? less : more;
            result.pads_end[axis] = auto_pad == "same_upper" ? more : less;
        }
    }
    return result;
}

std::vector<int64_t> expected_shape_input(const op &the_op) {
    const op_schema &schema = *find_schema(the_op.get_kind());
    if (schema.family == op_family::interpolation) {
        const dims resized = the_op.get_inputs()[1].get_dims();
        const auto first = first_spatial_axis(the_op);
        const auto rank = static_cast<int64_t>(resized.size()) - 2;
        return {resized.begin() + first, resized.begin() + first + rank};
    }
    return the_op.get_outputs()[0].get_dims();
}

} // namespace gradnn::detail
