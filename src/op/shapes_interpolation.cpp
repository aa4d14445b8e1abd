// Shape rules of interpolations: N and C of both tensors agree, and the spatial dims
// of the resampled one, dst or diff_dst, are those that sizes or scales give.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "op/labels.hpp"
#include "op/shape_rules.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

// Exact: a double holds the product of a f32 and a dim below 2^29, and beyond that
// neighbours of the rounded product differ by less than 1.
double scaled_size(int64_t src, float scale) {
    return static_cast<double>(src) * static_cast<double>(scale);
}

void check_resize_axis(const checked_op &the_op, const std::string &port,
        size_t axis, int64_t src, int64_t resized, float scale) {
    const double product = scaled_size(src, scale);
    const double floored = std::floor(product);
    const double nearest = std::floor(product + 0.5);
    const auto given = static_cast<double>(resized);
    if (given == floored || given == nearest) return;
    fail_shape(the_op,
            text(port, " has ", resized, " elements on spatial axis ", axis,
                    "; ", static_cast<int64_t>(std::min(floored, 9e18)),
                    " (floor) or ",
                    static_cast<int64_t>(std::min(nearest, 9e18)),
                    " (nearest) are allowed, src having ", src,
                    " and attribute scales saying ", scale));
}

size_t shape_port(const checked_op &the_op) {
    return static_cast<size_t>(
            port_index(the_op.schema().inputs, port_role::shape));
}

/// The dims of dst, where the op says no other: as scales and floor have them.
std::optional<dims> dims_of_dst(const checked_op &the_op, const dims &src) {
    const op_attributes &attributes = the_op.attributes();
    if (dims_known(the_op.outputs[0])) return the_op.outputs[0].get_dims();
    if (attributes.sizes.empty() && attributes.scales.empty())
        return std::nullopt;
    dims dst = src;
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    for (size_t axis = 0; axis < src.size() - 2; ++axis) {
        if (!attributes.sizes.empty()) {
            dst[first + axis] = attributes.sizes[axis];
            continue;
        }
        const double size = std::floor(
                scaled_size(src[first + axis], attributes.scales[axis]));
        if (size > 0x1p62)
            fail_shape(the_op,
                    text("attribute scales is ", text_of(attributes.scales),
                            " and input 0 (src) has dims ", text_of(src),
                            ": more elements than 63 bits can count"));
        dst[first + axis] = static_cast<int64_t>(size);
    }
    return dst;
}

/// That the resampled tensor, which messages call `port`, is one of src.
void check_resampled(const checked_op &the_op, const std::string &port,
        const dims &src, const dims &resized) {
    const int rank = static_cast<int>(src.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    if (src.size() != resized.size() || src[0] != resized[0]
            || src[channels] != resized[channels])
        fail_shape(the_op,
                text(port, " has dims ", text_of(resized),
                        " and input 0 (src) ", text_of(src),
                        ": dims 0 (N) and ", channels,
                        " (C, by data_format) must agree"));
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const auto sizes = the_op.attributes().sizes;
    const auto scales = the_op.attributes().scales;
    for (size_t axis = 0; axis < src.size() - 2; ++axis) {
        const int64_t size = resized[first + axis];
        if (!sizes.empty()) {
            if (sizes[axis] != size)
                fail_shape(the_op,
                        text("attribute sizes is ", text_of(sizes), " and ",
                                port, " has dims ", text_of(resized),
                                ": they must agree"));
        } else if (the_op.inputs[shape_port(the_op)].is_absent()) {
            check_resize_axis(
                    the_op, port, axis, src[first + axis], size, scales[axis]);
        }
    }
}

} // namespace

void shape_interpolation(
        const checked_op &the_op, output_dims &outputs, bool complete) {
    const op_attributes &attributes = the_op.attributes();
    const size_t sizes = shape_port(the_op);
    if (attributes.sizes.empty() && attributes.scales.empty()
            && the_op.inputs[sizes].is_absent())
        fail_op(the_op,
                text("neither attribute sizes nor attribute scales is "
                     "given, nor input ",
                        sizes, " (sizes); one must be"));
    if (attributes.scale_rule == scale_rule::given && attributes.scales.empty())
        fail_op(the_op,
                "attribute scale_rule is given and attribute scales "
                "is missing");
    const dims src = the_op.inputs[0].get_dims();
    if (!is_forward_interpolation(the_op)) {
        check_resampled(
                the_op, "input 1 (diff_dst)", src, the_op.inputs[1].get_dims());
        outputs.settle(port_role::source, src, port_reference {false, 0});
        return;
    }
    const auto dst = dims_of_dst(the_op, src);
    if (dst) {
        check_resampled(the_op, "output 0 (dst)", src, *dst);
        outputs.settle(port_role::resampled, *dst,
                attributes.sizes.empty() ? op::attr::scales : op::attr::sizes);
    } else if (complete) {
        fail_shape(the_op,
                "the dims of output 0 (dst) are unknown; give them, or "
                "attribute "
                "sizes or scales");
    }
}

} // namespace gradnn::detail
