#include "compile/completion.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "op/labels.hpp"
#include "op/op_check.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using layout_type = logical_tensor::layout_type;

/// Dims that are known win over those that the op was built with.
logical_tensor merged(
        const logical_tensor &given, const logical_tensor &declared) {
    if (dims_known(given) || !dims_known(declared)) return given;
    return {given.get_id(), given.get_data_type(), declared.get_dims(),
            given.get_layout_type(), given.get_property_type()};
}

bool laid_out(const logical_tensor &lt) {
    return dims_known(lt) && lt.get_layout_type() == layout_type::strided;
}

/// Takes over what the caller says of the ports. Returns whether each is laid
/// out, and was so when the op was declared.
bool take_given(checked_op &the_op, given_tensors &given) {
    bool as_declared = true;
    for (auto *list : {&the_op.inputs, &the_op.outputs})
        for (logical_tensor &lt : *list) {
            if (lt.is_absent()) continue;
            const logical_tensor port = merged(given.find(the_op, lt), lt);
            as_declared = as_declared && laid_out(lt) && port.is_equal(lt);
            lt = port;
        }
    for (size_t index = 0; index < the_op.inputs.size(); ++index) {
        const logical_tensor &lt = the_op.inputs[index];
        if (!lt.is_absent() && !laid_out(lt))
            fail_shape(the_op,
                    port_label(the_op, {false, index})
                            + " must have known dims and a strided layout at "
                              "compile");
    }
    return as_declared;
}

/// An output whose layout is the library's choice nests its axes as the first
/// input of its rank does: a channels-last gradient of channels-last data.
logical_tensor with_layout(const checked_op &the_op, size_t index) {
    const logical_tensor &lt = the_op.outputs[index];
    const auto dims = lt.get_dims();
    auto strides = dense_strides(dims);
    const bool is_weights
            = the_op.row({true, index}).role == port_role::weights;
    const logical_tensor &first = the_op.inputs[0];
    if (!is_weights && dims_of(first).size() == dims.size())
        strides = strides_like(dims, first.get_strides());
    return {lt.get_id(), lt.get_data_type(), dims, strides,
            lt.get_property_type()};
}

/// The dims and the layouts of outputs that the caller leaves open.
void complete_outputs(checked_op &the_op) {
    const std::vector<logical_tensor> given = the_op.outputs;
    the_op.outputs = outputs_with_dims(the_op, true);
    for (size_t index = 0; index < given.size(); ++index) {
        if (given[index].is_absent() || laid_out(given[index])) continue;
        if (given[index].get_layout_type() != layout_type::strided)
            the_op.outputs[index] = with_layout(the_op, index);
        check_output(the_op, index); // it too must fit in memory
    }
}

} // namespace

given_tensors::given_tensors(const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs) {
    entries_.reserve(inputs.size() + outputs.size());
    for (const auto *list : {&inputs, &outputs})
        for (const logical_tensor &lt : *list) {
            if (lt.is_absent()) continue;
            // Of several with one id the last counts.
            if (tensor_entry *known = entry(lt.get_id()))
                known->lt = lt;
            else
                entries_.push_back({lt});
        }
}

void given_tensors::add_inner(const logical_tensor &lt, const op &first) {
    if (entry(lt.get_id()) != nullptr)
        throw error(status::invalid_arguments,
                text("compile is given tensor ", lt.get_id(),
                        ", which is inside the partition of ", op_label(first),
                        " and no port of it"));
    entries_.push_back({lt, true});
}

const logical_tensor &given_tensors::find(
        const checked_op &the_op, const logical_tensor &declared) {
    tensor_entry *const found = entry(declared.get_id());
    if (!found)
        throw error(status::invalid_arguments,
                text(op_label(the_op.identity()),
                        ": compile is not given tensor ", declared.get_id(),
                        ", a port of the partition"));
    const logical_tensor &lt = found->lt;
    if (lt.get_data_type() != declared.get_data_type())
        fail_type(the_op,
                text("compile is given tensor ", lt.get_id(), " as ",
                        to_string(lt.get_data_type()),
                        "; the op was built with ",
                        to_string(declared.get_data_type())));
    if (dims_known(declared) && dims_known(lt) && !same_dims(lt, declared))
        fail_shape(the_op,
                text("compile is given tensor ", lt.get_id(), " with dims ",
                        text_of(dims_of(lt)), "; the op was built with ",
                        text_of(dims_of(declared))));
    found->used = true;
    return lt;
}

bool given_tensors::leaves_layout_open(const logical_tensor &port) {
    return entry(port.get_id())->lt.get_layout_type() != layout_type::strided;
}

void given_tensors::replace(const logical_tensor &lt) {
    entry(lt.get_id())->lt = lt;
}

void given_tensors::check_all_used() const {
    const tensor_entry *unused = nullptr;
    for (const tensor_entry &each : entries_)
        if (!each.used && (!unused || each.lt.get_id() < unused->lt.get_id()))
            unused = &each;
    if (unused)
        throw error(status::invalid_arguments,
                text("compile is given tensor ", unused->lt.get_id(),
                        ", which is no port of the partition"));
}

given_tensors::tensor_entry *given_tensors::entry(size_t id) {
    const auto found = std::find_if(entries_.begin(), entries_.end(),
            [&](const tensor_entry &each) { return each.lt.get_id() == id; });
    return found == entries_.end() ? nullptr : &*found;
}

checked_op completed(const checked_op &declared, given_tensors &given) {
    checked_op result = declared;
    if (!take_given(result, given)) {
        check_ports(result);
        complete_outputs(result);
    }
    return result;
}

} // namespace gradnn::detail
