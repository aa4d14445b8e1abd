// compiled_partition: what a compiled partition tells of itself, and execute.
#include "execute/execute.hpp"

#include <chrono>
#include <limits>
#include <optional>
#include <span>

#include <gradnn/graph.hpp>

#include "base/profiler_range.hpp"
#include "base/text.hpp"
#include "base/threads.hpp"
#include "compile/executable.hpp"
#include "execute/execute_check.hpp"
#include "kernel/backend.hpp"
#include "kernel/engine_impl.hpp"
#include "op/labels.hpp"

namespace gradnn {

namespace detail {

namespace {

/// Calls body(step, image, channel) for each run of each step, in their order.
template <typename Body>
void for_each_run(const slicing &slices, std::span<const executable_step> steps,
        const Body &body) {
    for (int64_t image = 0; image < slices.images; ++image)
        for (int64_t channel = 0; channel < slices.channels; ++channel)
            for (const executable_step &step : steps)
                body(step, image, channel);
}

/// `clock`, where there is one, marks the beginning and the end of each run.
void run_steps(const compiled_impl &compiled,
        std::span<const executable_step> steps, const port_data &data,
        std::byte *workspace, stream_impl &stream, step_clock *clock) {
    const executable &program = *compiled.program;
    std::optional<at_most_threads> threads;
    if (backend_of(program.engine_kind).on_host)
        threads.emplace(program.threads);
    const auto pointer = [&](size_t argument) {
        const size_t ports = program.ports.size();
        return argument < ports ? static_cast<std::byte *>(data[argument])
                                : workspace + program.inner[argument - ports];
    };
    if (clock) clock->mark();
    for_each_run(program.slices, steps,
            [&](const executable_step &step, int64_t image, int64_t channel) {
                port_data arguments {};
                for (size_t i = 0; i < step.arguments.size(); ++i) {
                    arguments[i] = pointer(step.arguments[i])
                            + image * step.strides[i].image
                            + channel * step.strides[i].channel;
                }
                try {
                    const profiler_range range(compiled.range_name(step));
                    step.plan->execute(
                            std::span(arguments.data(), step.arguments.size()),
                            workspace + program.inner_bytes, stream);
                } catch (const error &failure) {
                    throw named(failure, compiled.ops[step.op].identity(),
                            step.kernel);
                }
                if (clock) clock->mark();
            });
}

/// The caller's workspace, or else the stream's.
struct given_workspace {
    bool callers = false;
    void *data = nullptr;
    addresses of_data = addresses::asked;
};

std::byte *workspace_of(const compiled_impl &compiled, stream_impl &stream) {
    try {
        return stream.workspace(compiled.program->workspace_bytes);
    } catch (const error &failure) {
        throw error(failure.status,
                text(op_label(compiled.ops.front().identity()),
                        ": the workspace: ", failure.what()));
    }
}

/// With `timed`, returns a clock of the steps, or null where the stream cannot
/// have one now.
std::unique_ptr<step_clock> execute(const compiled_impl &compiled,
        std::span<const executable_step> steps, stream_impl &stream,
        const port_data &data, const given_workspace &given, bool timed) {
    const executable &program = *compiled.program;
    check_overlaps(compiled, data);
    if (given.callers)
        check_workspace(compiled, given.data,
                given.of_data == addresses::asked ? stream.engine.get()
                                                  : nullptr);
    const std::lock_guard in_order(stream.mutex);
    std::byte *scratch = nullptr;
    if (given.callers)
        scratch = static_cast<std::byte *>(given.data);
    else if (program.workspace_bytes != 0)
        scratch = workspace_of(compiled, stream);
    std::unique_ptr<step_clock> clock;
    if (timed)
        clock = stream.make_step_clock(
                steps.size() * static_cast<size_t>(program.slices.count()));
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
    const auto &steps = compiled.program->steps;
    std::vector<double> times(steps.size());
    const std::vector<double> of_runs = clock->milliseconds();
    auto run = of_runs.begin();
    for_each_run(compiled.program->slices, steps,
            [&](const executable_step &step, int64_t, int64_t) {
                times[static_cast<size_t>(&step - steps.data())] += *run++;
            });
    for (size_t index = 0; index < times.size(); ++index) {
        const executable_step &step = steps[index];
        line.steps = text(
                step_text(compiled.ops[step.op], step), ':', step.kernel);
        line.workspace_bytes = std::to_string(step.plan->workspace_bytes());
        line.milliseconds = log_milliseconds(times[index]);
        write_log(line);
    }
}

/// `data_of` gives the checked pointers; its time counts.
template <typename DataOf>
void execute_logged(const compiled_impl &compiled, stream_impl &stream,
        const DataOf &data_of, const given_workspace &given) {
    const int level = log_level();
    const auto start = level >= log_events
            ? std::chrono::steady_clock::now()
            : std::chrono::steady_clock::time_point();
    const auto clock = execute(compiled, compiled.program->steps, stream,
            data_of(), given, level >= log_step_times);
    if (level < log_events) return;
    const double milliseconds = milliseconds_since(start);
    log_line line = compiled.common_line();
    line.event = "execute";
    line.milliseconds = log_milliseconds(milliseconds);
    write_log(line);
    if (level >= log_step_times) log_step_lines(compiled, clock.get());
}

void execute_tensors(const compiled_impl &compiled, stream &astream,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        const given_workspace &given) {
    stream_impl &stream = checked_stream(compiled, astream);
    execute_logged(
            compiled, stream,
            [&] {
                return checked_data(compiled, inputs, outputs, *stream.engine);
            },
            given);
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
    stream_impl &stream = checked_stream(impl, astream);
    execute(impl, steps.subspan(step, 1), stream,
            checked_data(impl, inputs, outputs, *stream.engine), {}, false);
}

void execute_pointers(const compiled_impl &compiled, stream_impl &stream,
        std::span<void *const> data, void *workspace, addresses of_data) {
    const engine_impl *const asked
            = of_data == addresses::asked ? stream.engine.get() : nullptr;
    execute_logged(compiled, stream,
            [&] { return checked_data(compiled, data, asked); },
            {true, workspace, of_data});
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
    info.inner = compiled.inner;
    info.composed = program.composed;
    info.bits_of_ops = !program.composed && !program.slices.convolves;
    info.slices = static_cast<size_t>(program.slices.count());
    for (const detail::executable_step &step : program.steps) {
        const detail::checked_op &the_op = compiled.ops[step.op];
        info.steps.push_back({step.kernel, step.plan->backend(),
                step.plan->workspace_bytes(), step.plan->deterministic(),
                the_op.identity().get_id(), detail::output_name(the_op, step)});
        info.deterministic = info.deterministic && step.plan->deterministic();
        info.bits_of_ops = info.bits_of_ops && step.plan->bits_of_ops();
    }
    return info;
}

size_t compiled_partition::get_workspace_size() const {
    return detail::filled(impl_).program->workspace_bytes;
}

void compiled_partition::execute(stream &astream,
        const std::vector<tensor> &inputs,
        const std::vector<tensor> &outputs) const {
    detail::execute_tensors(
            detail::filled(impl_), astream, inputs, outputs, {});
}

void compiled_partition::execute(stream &astream,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        void *workspace) const {
    detail::execute_tensors(
            detail::filled(impl_), astream, inputs, outputs, {true, workspace});
}

logical_tensor compiled_partition::get_scratchpad_logical_tensor() const {
    const size_t bytes = get_workspace_size();
    const size_t room = bytes == 0 ? 0 : detail::workspace_alignment - 1;
    return {std::numeric_limits<size_t>::max(), logical_tensor::data_type::u8,
            logical_tensor::dims {static_cast<int64_t>(bytes + room)},
            logical_tensor::layout_type::strided};
}

void compiled_partition::execute(stream &astream,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        const tensor &scratchpad) const {
    const detail::compiled_impl &compiled = detail::filled(impl_);
    detail::execute_tensors(compiled, astream, inputs, outputs,
            scratchpad ? detail::given_workspace {true,
                    detail::checked_scratchpad(compiled, scratchpad)}
                       : detail::given_workspace {});
}

} // namespace gradnn
