// compiled_partition: what a compiled partition tells of itself, and execute:
// the checks that need the data's addresses, then the steps.
#include "execute.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>

#include <gradnn/graph.hpp>

#include "cpu/threads.hpp"
#include "engine_impl.hpp"
#include "executable.hpp"
#include "gpu/backend.hpp"
#include "memory_overlap.hpp"
#include "op_check.hpp"
#include "text.hpp"

namespace gradnn {

namespace detail {

namespace {

/// An op of ours has at most 3 + 3 ports.
constexpr size_t max_ports = 16;

using pointers = std::array<void *, max_ports>;

/// "InterpolateBackward 'up' (op 3): input 1 (diff_dst), tensor 7".
std::string port_name(const compiled_impl &compiled, size_t index) {
    const size_t id = compiled.ports[index].get_id();
    for (const op &the_op : compiled.ops) {
        const op_schema &schema = *find_schema(the_op.get_kind());
        const auto find = [&](bool output, const auto &ports,
                                  std::span<const port_row> rows) {
            for (size_t i = 0; i < ports.size(); ++i)
                if (!ports[i].is_absent() && ports[i].get_id() == id)
                    return text(op_label(the_op), ": ",
                            port_label(output, i, rows[i]), ", tensor ", id);
            return std::string();
        };
        std::string found = find(false, the_op.get_inputs(), schema.inputs);
        if (found.empty())
            found = find(true, the_op.get_outputs(), schema.outputs);
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

void check_tensor(const compiled_impl &compiled, size_t index,
        const tensor &given, const engine_impl &device) {
    const executable_port &port = compiled.program->ports[index];
    if (!describes(port.lt, given.get_logical_tensor()))
        refuse(compiled, index,
                text("execute is given ",
                        description(given.get_logical_tensor()),
                        "; compiled for ", description(port.lt)));
    const void *data = given.get_data_handle();
    const bool needed = port.extent != 0 && (port.used || port.is_shape);
    if (!needed) return;
    if (!data) refuse(compiled, index, "its data pointer is null");
    const auto size = static_cast<uintptr_t>(size_of(port.lt.get_data_type()));
    if (reinterpret_cast<uintptr_t>(data) % size != 0)
        refuse(compiled, index,
                text("its data pointer is not aligned to its elements of ",
                        size, " bytes"));
    if (port.is_shape) return check_shape_values(compiled, index, data);
    const engine_impl &given_device = access::device(given);
    if (given_device.kind != device.kind || given_device.index != device.index)
        refuse(compiled, index,
                text("its engine is ", to_string(given_device.kind), " ",
                        given_device.index, "; the partition is compiled for ",
                        to_string(device.kind), " ", device.index));
    const std::string reason = device.check_pointer(data);
    if (!reason.empty()) refuse(compiled, index, reason);
}

/// Outputs may meet nothing but the input that they may replace.
void check_overlaps(const compiled_impl &compiled, const pointers &data) {
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

/// A step as a profiler sees it.
class step_range {
public:
    step_range(const compiled_impl &compiled, const executable_step &step)
        : open_(!compiled.range_names.empty()) {
        const auto index
                = static_cast<size_t>(&step - compiled.program->steps.data());
        if (open_) gpu::begin_range(compiled.range_names[index].c_str());
    }
    step_range(const step_range &) = delete;
    step_range &operator=(const step_range &) = delete;
    ~step_range() {
        if (open_) gpu::end_range();
    }

private:
    const bool open_;
};

/// `clock`, where there is one, marks the beginning and the end of each step.
void run_steps(const compiled_impl &compiled,
        std::span<const executable_step> steps, const pointers &data,
        std::byte *workspace, stream_impl &stream, step_clock *clock) {
    std::optional<cpu::at_most_threads> threads;
    if (compiled.program->engine_kind == engine::kind::cpu)
        threads.emplace(compiled.program->threads);
    if (clock) clock->mark();
    for (const executable_step &step : steps) {
        std::array<void *, max_ports> arguments {};
        for (size_t i = 0; i < step.arguments.size(); ++i)
            arguments[i] = data[step.arguments[i]];
        try {
            const step_range range(compiled, step);
            step.plan->execute(
                    std::span(arguments.data(), step.arguments.size()),
                    workspace, stream);
        } catch (const error &failure) {
            throw named(failure, compiled.ops[step.op], step.kernel);
        }
        if (clock) clock->mark();
    }
}

std::byte *workspace_of(const compiled_impl &compiled, stream_impl &stream) {
    try {
        return stream.workspace(compiled.program->workspace_bytes);
    } catch (const error &failure) {
        throw error(failure.status,
                text(op_label(compiled.ops.front()),
                        ": the workspace: ", failure.what()));
    }
}

/// With `timed`, returns a clock of the steps, or null where the stream cannot
/// have one now.
std::unique_ptr<step_clock> execute(const compiled_impl &compiled,
        std::span<const executable_step> steps, stream &astream,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        bool own_workspace, void *workspace, bool timed) {
    const executable &program = *compiled.program;
    if (!astream)
        throw error(status::invalid_arguments,
                op_label(compiled.ops.front())
                        + ": execute is given an empty stream");
    stream_impl &stream = *access::impl(astream);
    const engine_impl &device = *stream.engine;
    if (device.kind != program.engine_kind
            || device.index != program.engine_index)
        throw error(status::invalid_arguments,
                text(op_label(compiled.ops.front()),
                        ": execute is given a stream of ",
                        to_string(device.kind), " ", device.index,
                        "; compiled for ", to_string(program.engine_kind), " ",
                        program.engine_index));
    pointers data {};
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
    check_overlaps(compiled, data);
    if (own_workspace && program.workspace_bytes != 0) {
        if (!workspace
                || reinterpret_cast<uintptr_t>(workspace) % workspace_alignment
                        != 0)
            throw error(status::invalid_arguments,
                    text(op_label(compiled.ops.front()),
                            ": the workspace given to execute is ",
                            workspace ? "misaligned" : "null", "; ",
                            program.workspace_bytes, " bytes at a multiple of ",
                            workspace_alignment, " are wanted"));
        const std::string reason = device.check_pointer(workspace);
        if (!reason.empty())
            throw error(status::invalid_arguments,
                    op_label(compiled.ops.front())
                            + ": the workspace given to execute: " + reason);
    }
    const std::lock_guard in_order(stream.mutex);
    std::byte *scratch = nullptr;
    if (own_workspace)
        scratch = static_cast<std::byte *>(workspace);
    else if (program.workspace_bytes != 0)
        scratch = workspace_of(compiled, stream);
    std::unique_ptr<step_clock> clock;
    if (timed) clock = stream.make_step_clock(steps.size());
    run_steps(compiled, steps, data, scratch, stream, clock.get());
    return clock;
}

void log_step_lines(const compiled_impl &compiled, step_clock *clock) {
    log_line line = compiled.common_line();
    line.event = "execute:step";
    line.workspace_bytes.clear();
    line.moved_bytes.clear();
    if (!clock) {
        line.note = "no times: the stream is being captured";
        return write_log(line);
    }
    const std::vector<double> times = clock->milliseconds();
    for (size_t index = 0; index < times.size(); ++index) {
        const executable_step &step = compiled.program->steps[index];
        line.steps = text(step_text(compiled.ops[step.op], step.output), ':',
                step.kernel);
        line.workspace_bytes = std::to_string(step.plan->workspace_bytes());
        line.milliseconds = log_milliseconds(times[index]);
        write_log(line);
    }
}

void execute_logged(const compiled_impl &compiled, stream &astream,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        bool own_workspace, void *workspace) {
    const int level = log_level();
    const auto start = level >= log_events
            ? std::chrono::steady_clock::now()
            : std::chrono::steady_clock::time_point();
    const auto clock = execute(compiled, compiled.program->steps, astream,
            inputs, outputs, own_workspace, workspace, level >= log_step_times);
    if (level < log_events) return;
    const double milliseconds = milliseconds_since(start);
    log_line line = compiled.common_line();
    line.event = "execute";
    line.milliseconds = log_milliseconds(milliseconds);
    write_log(line);
    if (level >= log_step_times) log_step_lines(compiled, clock.get());
}

const compiled_impl &filled(const std::shared_ptr<const compiled_impl> &impl) {
    if (!impl)
        throw error(status::invalid_arguments,
                "compiled_partition: the handle is empty");
    return *impl;
}

} // namespace

void execute_step(const compiled_partition &compiled, size_t step,
        stream &astream, const std::vector<tensor> &inputs,
        const std::vector<tensor> &outputs) {
    const compiled_impl &impl = filled(access::impl(compiled));
    const std::span<const executable_step> steps = impl.program->steps;
    if (step >= steps.size())
        throw error(status::invalid_arguments,
                text("execute_step: given step ", step,
                        "; the compiled partition has ", steps.size()));
    execute(impl, steps.subspan(step, 1), astream, inputs, outputs, false,
            nullptr, false);
}

} // namespace detail

logical_tensor compiled_partition::query_logical_tensor(size_t tid) const {
    for (const logical_tensor &lt : detail::filled(impl_).ports)
        if (lt.get_id() == tid) return lt;
    throw error(status::invalid_arguments,
            detail::text("compiled_partition: no port has the id ", tid));
}

std::vector<std::pair<size_t, size_t>> compiled_partition::get_inplace_ports()
        const {
    const detail::compiled_impl &compiled = detail::filled(impl_);
    std::vector<std::pair<size_t, size_t>> pairs;
    for (const auto &[in, out] : compiled.program->inplace)
        pairs.emplace_back(
                compiled.ports[in].get_id(), compiled.ports[out].get_id());
    return pairs;
}

compiled_partition_info compiled_partition::get_info() const {
    const detail::compiled_impl &compiled = detail::filled(impl_);
    const detail::executable &program = *compiled.program;
    compiled_partition_info info;
    info.id = compiled.id;
    info.partition_id = compiled.partition_id;
    info.workspace_bytes = program.workspace_bytes;
    info.threads = program.threads;
    for (const detail::executable_step &step : program.steps) {
        const op &the_op = compiled.ops[step.op];
        info.steps.push_back({step.kernel, step.plan->backend(),
                step.plan->workspace_bytes(), step.plan->deterministic(),
                the_op.get_id(), detail::output_name(the_op, step.output)});
        info.deterministic = info.deterministic && step.plan->deterministic();
    }
    return info;
}

size_t compiled_partition::get_workspace_size() const {
    return detail::filled(impl_).program->workspace_bytes;
}

void compiled_partition::execute(stream &astream,
        const std::vector<tensor> &inputs,
        const std::vector<tensor> &outputs) const {
    detail::execute_logged(
            detail::filled(impl_), astream, inputs, outputs, false, nullptr);
}

void compiled_partition::execute(stream &astream,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        void *workspace) const {
    detail::execute_logged(
            detail::filled(impl_), astream, inputs, outputs, true, workspace);
}

} // namespace gradnn
