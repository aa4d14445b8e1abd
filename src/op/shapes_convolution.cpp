// Shape rules of convolutions, transposed or not: how a large and a small
// tensor and weights (port_role) go together, and which of them follow from
// the others.
#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "op/labels.hpp"
#include "op/op_attributes.hpp"
#include "op/shape_rules.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using wide = __int128;

bool is_transposed(const checked_op &the_op) {
    return the_op.schema().family == op_family::transposed;
}

int64_t narrow(const checked_op &the_op, wide value, const char *what) {
    if (value < 0 || value > std::numeric_limits<int64_t>::max())
        fail_shape(the_op,
                text("the attributes give ", what,
                        value < 0 ? " a negative size"
                                  : " a size beyond 63 bits"));
    return static_cast<int64_t>(value);
}

struct axis_rule {
    const checked_op &the_op;
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
axis_rule rule_of(const checked_op &the_op, size_t axis, int64_t kernel) {
    const op_attributes &attributes = the_op.attributes();
    const auto value = [&](std::span<const int64_t> list) {
        return axis < list.size() ? wide {list[axis]} : wide {0};
    };
    axis_rule rule {the_op,
            attributes.auto_pad == padding_rule::same_upper
                    || attributes.auto_pad == padding_rule::same_lower,
            (wide {kernel} - 1) * value(attributes.dilations) + 1,
            value(attributes.strides), 0, value(attributes.output_padding)};
    if (attributes.auto_pad == padding_rule::none)
        rule.pads = value(attributes.pads_begin) + value(attributes.pads_end);
    return rule;
}

/// Kernels add positions, points of the window and pads in 64 bits: each of
/// them stays below 2^61, so that no sum of them overflows.
void check_reach(const checked_op &the_op, const axis_rule &rule, size_t axis,
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

void check_channels(const checked_op &the_op, const dims &large,
        const dims &small, const dims &weights) {
    const int rank = static_cast<int>(large.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    const weights_axes axes = weights_axes_of(the_op, rank);
    const int64_t groups = the_op.attributes().groups;
    const auto say = [&](const std::string &what) {
        const bool transposed = is_transposed(the_op);
        fail_shape(the_op,
                text(what, ": weights ", text_of(weights), ", ",
                        transposed ? "dst " : "src ", text_of(large),
                        transposed ? ", src " : ", dst ", text_of(small),
                        ", groups ", groups));
    };
    if (large[0] != small[0]) say("batch sizes disagree");
    if (large[channels] % groups != 0 || small[channels] % groups != 0)
        say("attribute groups does not divide the channels");
    if (weights[static_cast<size_t>(axes.small)] != small[channels]
            || weights[static_cast<size_t>(axes.large)]
                    != large[channels] / groups)
        say("channels of weights and data disagree");
}

std::string axis_text(const checked_op &the_op, size_t axis, int64_t large,
        int64_t small, int64_t kernel) {
    const op_attributes &attributes = the_op.attributes();
    const bool transposed = is_transposed(the_op);
    return text("spatial axis ", axis, ": ", transposed ? "dst" : "src",
            " size ", large, ", ", transposed ? "src" : "dst", " size ", small,
            ", kernel ", kernel, ", strides ", text_of(attributes.strides),
            ", pads_begin ", text_of(attributes.pads_begin), ", pads_end ",
            text_of(attributes.pads_end), ", dilations ",
            text_of(attributes.dilations), ", auto_pad ",
            word_of(the_op.identity(), op::attr::auto_pad), ", output_padding ",
            text_of(attributes.output_padding), " do not fit together");
}

/// What ports and attributes say of the three tensors.
struct convolution_dims {
    role_dims large;
    role_dims small;
    role_dims weights;
};

convolution_dims collect_all(const checked_op &the_op) {
    convolution_dims result {collect(the_op, port_role::large),
            collect(the_op, port_role::small),
            collect(the_op, port_role::weights)};
    const auto dst_shape = the_op.attributes().dst_shape;
    const auto weights_shape = the_op.attributes().weights_shape;
    if (!dst_shape.empty())
        result.large.agree(the_op, dst_shape, op::attr::dst_shape);
    if (!weights_shape.empty())
        result.weights.agree(the_op, weights_shape, op::attr::weights_shape);
    return result;
}

/// Fills in the large or the small tensor, whichever no one gives, and checks
/// all axes. The weights are known.
void infer_axes(const checked_op &the_op, convolution_dims &all) {
    const dims &weights = *all.weights.known;
    const int rank = static_cast<int>(weights.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const weights_axes axes = weights_axes_of(the_op, rank);
    const auto weight_dim
            = [&](int axis) { return weights[static_cast<size_t>(axis)]; };
    const bool large_inferred = !all.large.known;
    const bool small_inferred = !all.small.known;
    if (large_inferred) {
        all.large.known = dims(static_cast<size_t>(rank));
        (*all.large.known)[0] = (*all.small.known)[0];
        (*all.large.known)[channels] = narrow(the_op,
                wide {weight_dim(axes.large)} * the_op.attributes().groups,
                "C");
    }
    if (small_inferred) {
        all.small.known = dims(static_cast<size_t>(rank));
        (*all.small.known)[0] = (*all.large.known)[0];
        (*all.small.known)[channels] = weight_dim(axes.small);
    }
    for (size_t axis = 0; axis < static_cast<size_t>(rank) - 2; ++axis) {
        const int64_t kernel
                = weight_dim(axes.spatial + static_cast<int>(axis));
        if (kernel < 1)
            fail_shape(the_op,
                    text("weights ", text_of(weights),
                            ": kernel sizes must be positive"));
        const axis_rule rule = rule_of(the_op, axis, kernel);
        int64_t &large_dim = (*all.large.known)[first + axis];
        int64_t &small_dim = (*all.small.known)[first + axis];
        if (large_inferred) large_dim = rule.large_of(small_dim);
        if (small_inferred) small_dim = rule.small_of(large_dim);
        if (!rule.agree(large_dim, small_dim))
            fail_shape(the_op,
                    axis_text(the_op, axis, large_dim, small_dim, kernel));
        check_reach(the_op, rule, axis, large_dim, small_dim);
    }
}

} // namespace

void shape_convolution(
        const checked_op &the_op, output_dims &outputs, bool complete) {
    convolution_dims all = collect_all(the_op);
    if (!all.weights.known) {
        if (complete)
            fail_shape(the_op,
                    "the dims of output 0 (diff_weights) are "
                    "unknown; give them or attribute weights_shape");
        return;
    }
    infer_axes(the_op, all);
    const dims &large = *all.large.known;
    const dims &small = *all.small.known;
    check_channels(the_op, large, small, *all.weights.known);
    outputs.settle(port_role::large, large, all.large.from);
    outputs.settle(port_role::small, small, all.small.from);
    outputs.settle(port_role::weights, *all.weights.known, all.weights.from);
    // diff_bias belongs to the channels of dst.
    const dims &dst = is_transposed(the_op) ? large : small;
    outputs.settle(port_role::bias,
            {dst[static_cast<size_t>(
                    channel_axis(the_op, static_cast<int>(dst.size())))]},
            "the channels of input 0 (diff_dst)");
}

convolution_geometry geometry_of(const checked_op &the_op,
        std::span<const int64_t> large, std::span<const int64_t> weights) {
    const op_attributes &attributes = the_op.attributes();
    const int rank = static_cast<int>(weights.size());
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const weights_axes axes = weights_axes_of(the_op, rank);
    convolution_geometry result;
    result.spatial_rank = rank - 2;
    result.groups = attributes.groups;
    for (size_t axis = 0; axis < weights.size() - 2; ++axis) {
        result.kernel[axis] = weights[static_cast<size_t>(axes.spatial) + axis];
        result.strides[axis] = attributes.strides[axis];
        result.dilations[axis] = attributes.dilations[axis];
        if (attributes.auto_pad == padding_rule::none) {
            result.pads_begin[axis] = attributes.pads_begin[axis];
            result.pads_end[axis] = attributes.pads_end[axis];
        } else if (attributes.auto_pad != padding_rule::valid) {
            // Total padding such that dst = ceil(src / stride); the odd one
            // goes to the end for same_upper, to the beginning for same_lower.
            const axis_rule rule = rule_of(the_op, axis, result.kernel[axis]);
            const int64_t size = large[first + axis];
            const wide total = std::max<wide>(0,
                    wide {rule.small_of(size) - 1} * rule.stride
                            + rule.effective_kernel - size);
            const auto less = static_cast<int64_t>(total / 2);
            const auto more = static_cast<int64_t>(total - total / 2);
            const bool upper = attributes.auto_pad == padding_rule::same_upper;
            result.pads_begin[axis] = upper ? less : more;
            result.pads_end[axis] = upper ? more : less;
        }
    }
    return result;
}

} // namespace gradnn::detail
