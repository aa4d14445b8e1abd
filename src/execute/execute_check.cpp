// What execute refuses: wrong streams and tensors, null, misaligned or
// overlapping data.
#include "execute/execute_check.hpp"

#include <cstring>
#include <memory>
#include <string>

#include "base/text.hpp"
#include "kernel/backend.hpp"
#include "op/labels.hpp"
#include "tensor/memory_overlap.hpp"

namespace gradnn::detail {

namespace {

/// "InterpolateBackward 'up' (op 3): input 1 (diff_dst), tensor 7".
std::string port_name(const compiled_impl &compiled, size_t index) {
    const size_t id = compiled.ports[index].get_id();
    for (const checked_op &the_op : compiled.ops) {
        std::string found;
        for_each_port(the_op, [&](port_reference port) {
            const logical_tensor &lt = the_op.port(port);
            if (found.empty() && !lt.is_absent() && lt.get_id() == id)
                found = text(op_label(the_op.identity()), ": ",
                        port_label(the_op, port), ", tensor ", id);
        });
        if (!found.empty()) return found;
    }
    return text("tensor ", id);
}

[[noreturn]] void refuse(
        const compiled_impl &compiled, size_t index, const std::string &what) {
    throw error(status::invalid_arguments,
            port_name(compiled, index) + ": " + what);
}

/// Same type and dims, and strides wherever they matter.
bool describes(const logical_tensor &port, const logical_tensor &given) {
    const int rank = access::ndims(port);
    if (given.get_data_type() != port.get_data_type()
            || access::ndims(given) != rank
            || given.get_layout_type() != logical_tensor::layout_type::strided)
        return false;
    for (int i = 0; i < rank; ++i) {
        const auto axis = static_cast<size_t>(i);
        const int64_t dim = access::dims(port)[axis];
        if (access::dims(given)[axis] != dim
                || (dim > 1
                        && access::strides(given)[axis]
                                != access::strides(port)[axis]))
            return false;
    }
    return true;
}

std::string description(const logical_tensor &lt) {
    if (lt.get_layout_type() != logical_tensor::layout_type::strided)
        return text(to_string(lt.get_data_type()), " without strides");
    return text(to_string(lt.get_data_type()), " with dims ",
            text_of(lt.get_dims()), " and strides ", text_of(lt.get_strides()));
}

const tensor &find_tensor(const compiled_impl &compiled, size_t port,
        const std::vector<tensor> &tensors, size_t likely) {
    const size_t id = compiled.ports[port].get_id();
    if (likely < tensors.size()
            && tensors[likely].get_logical_tensor().get_id() == id)
        return tensors[likely];
    for (const tensor &candidate : tensors)
        if (candidate && candidate.get_logical_tensor().get_id() == id)
            return candidate;
    refuse(compiled, port,
            compiled.program->ports[port].output
                    ? "execute is not given it among the outputs"
                    : "execute is not given it among the inputs");
}

void check_shape_values(
        const compiled_impl &compiled, size_t index, const void *data) {
    const executable_port &port = compiled.program->ports[index];
    const auto stride = static_cast<size_t>(access::strides(port.lt)[0]);
    for (size_t i = 0; i < port.expected.size(); ++i) {
        int32_t value = 0;
        std::memcpy(&value, static_cast<const int32_t *>(data) + i * stride,
                sizeof(value));
        if (value != port.expected[i])
            throw error(status::invalid_shape,
                    text(port_name(compiled, index), ": element ", i, " is ",
                            value, "; compiled for ", text_of(port.expected)));
    }
}

/// Of a port whose tensor is described rightly.
void check_pointer(const compiled_impl &compiled, size_t index,
        const void *data, const engine_impl *asked) {
    const executable_port &port = compiled.program->ports[index];
    const bool needed = port.extent != 0 && (port.used || port.is_shape);
    if (!needed) return;
    if (!data) refuse(compiled, index, "its data pointer is null");
    const auto size = static_cast<uintptr_t>(size_of(port.lt.get_data_type()));
    if (reinterpret_cast<uintptr_t>(data) % size != 0)
        refuse(compiled, index,
                text("its data pointer is not aligned to its elements of ",
                        size, " bytes"));
    if (port.is_shape) return check_shape_values(compiled, index, data);
    if (!asked) return;
    const std::string reason = asked->check_pointer(data);
    if (!reason.empty()) refuse(compiled, index, reason);
}

void check_tensor(const compiled_impl &compiled, size_t index,
        const tensor &given, const engine_impl &device) {
    const executable_port &port = compiled.program->ports[index];
    if (!describes(port.lt, given.get_logical_tensor()))
        refuse(compiled, index,
                text("execute is given ",
                        description(given.get_logical_tensor()),
                        "; compiled for ", description(port.lt)));
    if (!given.get_engine())
        refuse(compiled, index, "execute is given a scalar in host memory");
    const void *data = given.get_data_handle();
    if (data && port.extent != 0 && port.used) {
        const engine_impl &given_device = access::device(given);
        if (given_device.kind != device.kind
                || given_device.index != device.index)
            refuse(compiled, index,
                    text("its engine is ", to_string(given_device.kind), " ",
                            given_device.index,
                            "; the partition is compiled for ",
                            to_string(device.kind), " ", device.index));
    }
    check_pointer(compiled, index, data, &device);
}

} // namespace

stream_impl &checked_stream(const compiled_impl &compiled, stream &astream) {
    const executable &program = *compiled.program;
    if (!astream)
        throw error(status::invalid_arguments,
                op_label(compiled.ops.front().identity())
                        + ": execute is given an empty stream");
    stream_impl &stream = *access::impl(astream);
    const engine_impl &device = *stream.engine;
    if (device.kind != program.engine_kind
            || device.index != program.engine_index)
        throw error(status::invalid_arguments,
                text(op_label(compiled.ops.front().identity()),
                        ": execute is given a stream of ",
                        to_string(device.kind), " ", device.index,
                        "; compiled for ", to_string(program.engine_kind), " ",
                        program.engine_index));
    return stream;
}

port_data checked_data(const compiled_impl &compiled,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        const engine_impl &device) {
    const executable &program = *compiled.program;
    port_data data {};
    size_t input_count = 0;
    for (size_t index = 0; index < program.ports.size(); ++index) {
        const bool output = program.ports[index].output;
        const tensor &given
                = find_tensor(compiled, index, output ? outputs : inputs,
                        output ? index - input_count : index);
        if (!output) ++input_count;
        check_tensor(compiled, index, given, device);
        data[index] = given.get_data_handle();
    }
    return data;
}

port_data checked_data(const compiled_impl &compiled,
        std::span<void *const> given, const engine_impl *asked) {
    port_data data {};
    for (size_t index = 0; index < compiled.program->ports.size(); ++index) {
        check_pointer(compiled, index, given[index], asked);
        data[index] = given[index];
    }
    return data;
}

void *checked_scratchpad(
        const compiled_impl &compiled, const tensor &scratchpad) {
    size_t bytes = compiled.program->workspace_bytes;
    if (bytes == 0) return nullptr;
    const executable &program = *compiled.program;
    if (!scratchpad.get_engine()
            || scratchpad.get_engine().get_kind() != program.engine_kind
            || scratchpad.get_engine().get_index() != program.engine_index)
        throw error(status::invalid_arguments,
                text(op_label(compiled.ops.front().identity()),
                        ": the scratchpad given to execute is not of ",
                        to_string(program.engine_kind), " ",
                        program.engine_index));
    void *data = scratchpad.get_data_handle();
    const size_t given = scratchpad.get_logical_tensor().get_mem_size();
    size_t rest = given;
    if (data == nullptr
            || std::align(workspace_alignment, bytes, data, rest) == nullptr)
        throw error(status::invalid_arguments,
                text(op_label(compiled.ops.front().identity()),
                        ": the scratchpad given to execute has ",
                        data == nullptr ? "no memory"
                                        : text(given, " bytes").c_str(),
                        "; it takes get_scratchpad_logical_tensor()'s ",
                        bytes + workspace_alignment - 1));
    return data;
}

void check_workspace(const compiled_impl &compiled, const void *workspace,
        const engine_impl *asked) {
    const size_t bytes = compiled.program->workspace_bytes;
    if (bytes == 0) return;
    if (!workspace
            || reinterpret_cast<uintptr_t>(workspace) % workspace_alignment
                    != 0)
        throw error(status::invalid_arguments,
                text(op_label(compiled.ops.front().identity()),
                        ": the workspace given to execute is ",
                        workspace ? "misaligned" : "null", "; it needs ", bytes,
                        " bytes at a multiple of ", workspace_alignment));
    if (!asked) return;
    const std::string reason = asked->check_pointer(workspace);
    if (!reason.empty())
        throw error(status::invalid_arguments,
                op_label(compiled.ops.front().identity())
                        + ": the workspace given to execute: " + reason);
}

/// Outputs may meet nothing but the input that they may replace.
void check_overlaps(const compiled_impl &compiled, const port_data &data) {
    const executable &program = *compiled.program;
    const auto meet = [&](size_t a, size_t b) {
        return program.ports[a].used && program.ports[b].used
                && memory_overlaps(program.ports[a].lt, data[a],
                        program.ports[a].extent, program.ports[b].lt, data[b],
                        program.ports[b].extent);
    };
    for (size_t out = 0; out < program.ports.size(); ++out) {
        if (!program.ports[out].output) continue;
        for (size_t other = 0; other < out; ++other) {
            if (!meet(other, out)) continue;
            bool allowed = false;
            for (const auto &[in, replaced] : program.inplace)
                allowed = allowed
                        || (in == other && replaced == out
                                && data[in] == data[replaced]);
            if (!allowed)
                refuse(compiled, out,
                        "its memory overlaps that of "
                                + port_name(compiled, other));
        }
    }
}

} // namespace gradnn::detail
