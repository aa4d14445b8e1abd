#include "compile/slices.hpp"

#include <algorithm>

#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

/// A slice has at least this share of what it may have: steps cost time by
/// themselves.
constexpr size_t least_share = 8;

/// Calls body(port) for the tensors that slices are cut from.
template <typename Body>
void for_each_data(const checked_op &the_op, const Body &body) {
    for_each_port(the_op, [&](port_reference port) {
        if (!the_op.port(port).is_absent()
                && the_op.row(port).role != port_role::shape)
            body(port);
    });
}

/// The smallest divisor of a dim from `least` on, but for those that leave too little
/// of a slice; the dim, where none is.
int64_t divisor(int64_t dim, int64_t least) {
    const auto most = std::min(dim, least * static_cast<int64_t>(least_share));
    for (int64_t parts = std::min(least, dim); parts < most; ++parts)
        if (dim % parts == 0) return parts;
    return dim;
}

/// Whether each image and channel of the output comes from the same one of the
/// inputs.
bool may_be_cut(const checked_op &the_op) {
    const logical_tensor &output = the_op.outputs[0];
    if (the_op.schema().family == op_family::interpolation) return true;
    if (the_op.schema().family != op_family::elementwise) return false;
    return std::ranges::all_of(the_op.inputs, [&](const logical_tensor &lt) {
        return same_dims(lt, output); // none is broadcast
    });
}

/// The axis of the channels, where they are planes in memory; 0 where not.
size_t axis_of_planes(const std::vector<checked_op> &ops) {
    size_t axis = 0;
    for (const checked_op &the_op : ops)
        if (the_op.schema().family == op_family::interpolation)
            axis = static_cast<size_t>(channel_axis(the_op,
                    static_cast<int>(dims_of(the_op.outputs[0]).size())));
    bool planes = true;
    for (const checked_op &the_op : ops)
        for_each_data(the_op, [&](port_reference port) {
            const auto strides = strides_of(the_op.port(port));
            for (size_t other = 1; other < strides.size(); ++other)
                planes = planes && strides[other] <= strides[axis];
        });
    return planes ? axis : 0;
}

} // namespace

slicing slicing_of(const std::vector<checked_op> &ops, size_t cached_bytes) {
    size_t largest = 0;
    for (size_t index = 0; index + 1 < ops.size(); ++index)
        largest = std::max(largest, ops[index].outputs[0].get_mem_size());
    if (cached_bytes == 0 || largest <= cached_bytes
            || !std::ranges::all_of(ops, may_be_cut))
        return {};
    const auto wanted
            = static_cast<int64_t>((largest + cached_bytes - 1) / cached_bytes);
    const auto dims = dims_of(ops.front().outputs[0]);
    slicing how;
    how.images = divisor(dims[0], wanted);
    how.channel_axis = axis_of_planes(ops);
    if (how.channel_axis != 0)
        how.channels = divisor(
                dims[how.channel_axis], (wanted + how.images - 1) / how.images);
    const size_t slice
            = largest / static_cast<size_t>(how.images * how.channels);
    return slice * least_share >= cached_bytes ? how : slicing {};
}

checked_op first_slice(const checked_op &the_op, const slicing &how) {
    checked_op result = the_op;
    for_each_data(the_op, [&](port_reference port) {
        logical_tensor &lt
                = (port.output ? result.outputs : result.inputs)[port.index];
        auto dims = lt.get_dims();
        dims[0] /= how.images;
        dims[how.channel_axis] /= how.channels;
        lt = {lt.get_id(), lt.get_data_type(), dims, lt.get_strides(),
                lt.get_property_type()};
    });
    return result;
}

slice_stride stride_of_slices(const logical_tensor &lt, const slicing &how) {
    const auto step = [&](size_t axis, int64_t slices) {
        return dims_of(lt)[axis] / slices * strides_of(lt)[axis]
                * size_of(lt.get_data_type());
    };
    return {step(0, how.images), step(how.channel_axis, how.channels)};
}

} // namespace gradnn::detail
