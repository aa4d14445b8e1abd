#include "compile/slices.hpp"

#include <algorithm>
#include <ranges>

#include "compile/kernel_choice.hpp"
#include "kernel/backend.hpp"
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
        if (is_cut(the_op, port)) body(port);
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

bool convolves(const checked_op &the_op) {
    const op_family family = the_op.schema().family;
    return family == op_family::convolution || family == op_family::transposed;
}

/// Whether it is a convolution that gives the gradient of its data and no other.
bool gives_data_alone(const checked_op &the_op) {
    return convolves(the_op) && !the_op.outputs[0].is_absent()
            && the_op.row({true, 0}).role != port_role::weights
            && std::ranges::all_of(the_op.outputs | std::views::drop(1),
                    [](const logical_tensor &lt) { return lt.is_absent(); });
}

double bytes_of(const logical_tensor &lt) {
    return static_cast<double>(lt.is_absent() ? 0 : lt.get_mem_size());
}

/// Whether no image lies between the parts of another one.
bool images_are_apart(const checked_op &the_op) {
    bool apart = true;
    for_each_data(the_op, [&](port_reference port) {
        const auto strides = strides_of(the_op.port(port));
        apart = apart && std::ranges::max(strides) == strides[0];
    });
    return apart;
}

/// Whether each image of the output comes from the same one of the inputs, and but in
/// a convolution each channel.
bool may_be_cut(const checked_op &the_op) {
    const logical_tensor &output = the_op.outputs[0];
    if (convolves(the_op))
        return gives_data_alone(the_op) && images_are_apart(the_op);
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

/// Whether slices of a chain with a convolution are faster than all at once: what is
/// between its ops stays in the caches, but each slice costs calls and a copy of the
/// weights.
bool are_estimated_faster(const slicing &how,
        const std::vector<checked_op> &ops,
        const std::vector<placed_step> &steps, engine::kind kind,
        const compile_options &options) {
    // Measured: what a slice leaves is read and written faster than memory by this
    // factor, and a convolution in parts takes up to this share longer.
    constexpr double faster = 6, of_parts = 0.1;
    double between = 0, weights = 0;
    for (size_t index = 0; index + 1 < ops.size(); ++index)
        between += 2 * bytes_of(ops[index].outputs[0]); // written and read
    for (const checked_op &the_op : ops)
        for_each_port(the_op, [&](port_reference port) {
            if (the_op.row(port).role == port_role::weights)
                weights += 2 * bytes_of(the_op.port(port));
        });
    const kernel_rates rates = backend_of(kind).rates(
            ops.front().outputs[0].get_data_type(), options.fpmath);
    const double rate = rates.bytes * options.threads;
    const double a_slice
            = weights / rate + static_cast<double>(steps.size()) * rates.launch;
    return between / rate / faster
            > of_parts * estimated_time(steps, kind, options)
            + static_cast<double>(how.count()) * a_slice;
}

} // namespace

bool is_cut(const checked_op &the_op, port_reference port) {
    const port_role role = the_op.row(port).role;
    return !the_op.port(port).is_absent() && role != port_role::shape
            && role != port_role::weights;
}

slicing slicing_of(const std::vector<checked_op> &ops,
        const std::vector<placed_step> &steps, engine::kind kind,
        const compile_options &options) {
    const size_t cached_bytes = backend_of(kind).cached_bytes
            * static_cast<size_t>(options.threads);
    size_t largest = 0;
    for (size_t index = 0; index + 1 < ops.size(); ++index)
        largest = std::max(largest, ops[index].outputs[0].get_mem_size());
    if (cached_bytes == 0 || largest <= cached_bytes
            || lists_name(options.kernels, form_of_ops)
            || !std::ranges::all_of(ops, may_be_cut))
        return {};
    const auto wanted
            = static_cast<int64_t>((largest + cached_bytes - 1) / cached_bytes);
    const auto dims = dims_of(ops.front().outputs[0]);
    slicing how;
    how.images = divisor(dims[0], wanted);
    how.convolves = std::ranges::any_of(ops, convolves);
    if (!how.convolves) how.channel_axis = axis_of_planes(ops);
    if (how.channel_axis != 0)
        how.channels = divisor(
                dims[how.channel_axis], (wanted + how.images - 1) / how.images);
    const size_t slice
            = largest / static_cast<size_t>(how.images * how.channels);
    if (slice * least_share < cached_bytes) return {};
    if (how.convolves
            && (how.images == 1
                    || !are_estimated_faster(how, ops, steps, kind, options)))
        return {};
    return how;
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
