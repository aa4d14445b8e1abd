#include "compile/log_text.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "compile/executable.hpp"
#include "kernel/backend.hpp"
#include "op/op_schema.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using dims = logical_tensor::dims;
using layout_type = logical_tensor::layout_type;

void append(std::string &list, const std::string &item) {
    if (!list.empty()) list += ' ';
    list += item;
}

std::string joined(const dims &values) {
    std::string result;
    for (size_t axis = 0; axis < values.size(); ++axis) {
        if (axis != 0) result += 'x';
        result += values[axis] == logical_tensor::unknown_dim
                ? "?"
                : std::to_string(values[axis]);
    }
    return values.empty() ? "scalar" : result;
}

/// The axes from the outermost to the innermost, where the tensor has no gaps.
/// Axes of one element follow the axis before them, their strides say nothing.
std::optional<std::vector<size_t>> dense_order(
        const dims &shape, const dims &strides) {
    std::vector<size_t> order;
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] != 1) order.push_back(axis);
    std::stable_sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return strides[a] > strides[b]; });
    int64_t expected = 1;
    for (size_t place = order.size(); place-- > 0;) {
        if (strides[order[place]] != expected) return std::nullopt;
        expected *= shape[order[place]];
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (shape[axis] != 1) continue;
        auto place = order.begin();
        if (axis != 0)
            place = std::find(order.begin(), order.end(), axis - 1) + 1;
        order.insert(place, axis);
    }
    return order;
}

std::string layout_text(const logical_tensor &lt) {
    switch (lt.get_layout_type()) {
        case layout_type::undef: return "undef";
        case layout_type::any: return "any";
        case layout_type::opaque: return "opaque";
        case layout_type::strided: break;
    }
    if (!dims_known(lt)) return "strided";
    const dims shape = lt.get_dims();
    const dims strides = lt.get_strides();
    const auto order = dense_order(shape, strides);
    if (shape.empty()) return "dense";
    if (!order) return joined(strides);
    std::string letters;
    for (const size_t axis : *order)
        letters += static_cast<char>('a' + axis);
    return letters;
}

/// The name of a port; names of two words ("src or dst") become one.
std::string port_name(std::span<const port_row> rows, size_t index) {
    if (index >= rows.size()) return "port" + std::to_string(index);
    std::string name = rows[index].name;
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
}

/// The name that the first op with this port gives it.
std::string name_of(std::span<const checked_op> ops, size_t id, bool output) {
    for (const checked_op &the_op : ops) {
        const op_schema *schema = the_op.what->schema;
        const auto &ports = output ? the_op.outputs : the_op.inputs;
        for (size_t index = 0; index < ports.size(); ++index)
            if (!ports[index].is_absent() && ports[index].get_id() == id)
                return port_name(!schema ? std::span<const port_row>()
                                : output ? schema->outputs
                                         : schema->inputs,
                        index);
    }
    return "port";
}

/// Bytes of a tensor's elements; those that strides of 0 repeat count once.
size_t element_bytes(const logical_tensor &lt) {
    const dims shape = lt.get_dims();
    const dims strides = lt.get_strides();
    auto bytes = static_cast<size_t>(size_of(lt.get_data_type()));
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (strides[axis] != 0 || shape[axis] == 0)
            bytes *= static_cast<size_t>(shape[axis]);
    return bytes;
}

} // namespace

std::string engine_text(engine::kind kind, size_t index) {
    const backend &row = backend_of(kind);
    return row.on_host ? row.name : text(row.name, ':', index);
}

std::string ops_text(std::span<const checked_op> ops) {
    std::string result;
    for (const checked_op &the_op : ops)
        append(result,
                std::to_string(the_op.identity().get_id()) + ':'
                        + to_string(the_op.identity().get_kind()) + ':'
                        + escaped_name(the_op.identity().get_name()));
    return result;
}

std::string tensor_text(const logical_tensor &lt) {
    const bool has_rank = access::ndims(lt) >= 0;
    return std::string(to_string(lt.get_data_type())) + ':'
            + (has_rank ? joined(lt.get_dims()) : "?") + ':' + layout_text(lt);
}

std::string ports_text(std::span<const checked_op> ops,
        std::span<const logical_tensor> ports, bool output) {
    std::string result;
    for (const logical_tensor &lt : ports)
        append(result,
                name_of(ops, lt.get_id(), output) + ':'
                        + std::to_string(lt.get_id()) + ':' + tensor_text(lt));
    return result;
}

std::string output_name(const checked_op &the_op, size_t output) {
    const op_schema *schema = the_op.what->schema;
    return port_name(
            schema ? schema->outputs : std::span<const port_row>(), output);
}

std::string output_name(const checked_op &the_op, const executable_step &step) {
    return step.makes ? step.makes : output_name(the_op, step.output);
}

std::string step_text(const checked_op &the_op, const executable_step &step) {
    return std::to_string(the_op.identity().get_id()) + '.'
            + output_name(the_op, step);
}

log_line compiled_line(const compiled_impl &compiled) {
    const executable &program = *compiled.program;
    log_line line;
    line.engine = engine_text(program.engine_kind, program.engine_index);
    line.partition = std::to_string(compiled.partition_id);
    line.compiled = std::to_string(compiled.id);
    line.ops = ops_text(compiled.ops);
    for (const executable_step &step : program.steps)
        append(line.steps,
                step_text(compiled.ops[step.op], step) + ':' + step.kernel);
    size_t moved = 0;
    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;
    for (size_t index = 0; index < program.ports.size(); ++index) {
        const executable_port &port = program.ports[index];
        (port.output ? outputs : inputs).push_back(compiled.ports[index]);
        if (port.used) moved += element_bytes(port.lt);
    }
    line.inputs = ports_text(compiled.ops, inputs, false);
    line.outputs = ports_text(compiled.ops, outputs, true);
    line.inner = ports_text(compiled.ops, compiled.inner, true);
    if (program.slices.count() > 1)
        line.note = std::to_string(program.slices.count()) + " slices";
    if (program.composed) line.note = "composed";
    if (program.fused) line.note = "fused";
    line.workspace_bytes = std::to_string(program.workspace_bytes);
    line.moved_bytes = std::to_string(moved);
    return line;
}

} // namespace gradnn::detail
