// Shape rules of InterpolateBackward: N and C of src and diff_dst agree, and
// the spatial dims of diff_dst are those that sizes or scales give.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "op/labels.hpp"
#include "op/shape_rules.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

void check_resize_axis(const checked_op &the_op, size_t axis, int64_t src,
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

} // namespace

void shape_interpolation(const checked_op &the_op, output_dims &outputs) {
    const auto src = dims_of(the_op.inputs[0]);
    const auto resized = dims_of(the_op.inputs[1]);
    const int rank = static_cast<int>(src.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    if (src[0] != resized[0] || src[channels] != resized[channels])
        fail_shape(the_op,
                text("input 1 (diff_dst) has dims ", text_of(resized),
                        " and input 0 (src) ", text_of(src),
                        ": N and C must agree"));
    const auto first = static_cast<size_t>(first_spatial_axis(the_op));
    const size_t spatial_rank = src.size() - 2;
    const auto sizes = the_op.attributes().sizes;
    const auto scales = the_op.attributes().scales;
    const bool sizes_input = !the_op.inputs[2].is_absent();
    if (sizes.empty() && scales.empty() && !sizes_input)
        fail_op(the_op,
                "neither attribute sizes nor attribute scales is "
                "given, nor input 2 (sizes); one must be");
    if (the_op.attributes().scale_rule == scale_rule::given && scales.empty())
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
    outputs.settle(port_role::source, dims(src.begin(), src.end()),
            port_reference {false, 0});
}

} // namespace gradnn::detail
