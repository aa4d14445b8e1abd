#include "compile/compile.hpp"

#include <algorithm>

#include "base/counted_memory.hpp"
#include "base/profiler_range.hpp"
#include "base/text.hpp"
#include "base/unique_ids.hpp"
#include "compile/cache_key.hpp"
#include "compile/compile_settings.hpp"
#include "compile/completion.hpp"
#include "compile/executable.hpp"
#include "compile/graph_dump.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/lowering.hpp"
#include "kernel/engine_impl.hpp"
#include "kernel/executable_cache.hpp"
#include "op/labels.hpp"
#include "op/shapes.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

/// Lays out the outputs whose layout is left to the library as the kernels of their
/// problems rather write them. Returns the op's steps, or none where no layout is
/// left open and so nobody asks.
std::vector<lowered_step> lay_out_open_outputs(checked_op &the_op,
        given_tensors &given, engine::kind kind,
        const compile_options &options) {
    const auto is_open = [&](const logical_tensor &lt) {
        return !lt.is_absent() && given.leaves_layout_open(lt);
    };
    if (std::none_of(the_op.outputs.begin(), the_op.outputs.end(), is_open))
        return {};
    std::vector<lowered_step> steps = lower(the_op);
    for (lowered_step &step : steps)
        if (is_open(the_op.outputs[step.output])
                && writes_channels_last(step, kind, options))
            lay_channels_last(the_op, step);
    return steps;
}

size_t index_of(
        const logical_tensor &lt, const std::vector<logical_tensor> &ports) {
    const auto found = std::find_if(
            ports.begin(), ports.end(), [&](const logical_tensor &port) {
                return port.get_id() == lt.get_id();
            });
    return static_cast<size_t>(found - ports.begin());
}

/// What execute must know of an op's tensors: the values of a shape input, and
/// where an elementwise op reads and writes alike, so that both may be one memory.
void describe_ports(executable &program, const checked_op &the_op,
        const std::vector<logical_tensor> &ports) {
    const size_t output = index_of(the_op.outputs.front(), ports);
    for (size_t index = 0; index < the_op.inputs.size(); ++index) {
        const logical_tensor &lt = the_op.inputs[index];
        if (lt.is_absent()) continue;
        const size_t place = index_of(lt, ports);
        if (the_op.row({false, index}).role == port_role::shape) {
            program.ports[place].is_shape = true;
            program.ports[place].expected = expected_shape_input(the_op);
        }
        if (the_op.schema().family == op_family::elementwise
                && same_dims(lt, ports[output])
                && std::ranges::equal(
                        strides_of(lt), strides_of(ports[output])))
            program.inplace.emplace_back(place, output);
    }
}

/// A step with its kernel, after those that the program has.
void add_step(executable &program, const lowered_step &lowered,
        const checked_op &the_op, const std::vector<logical_tensor> &ports,
        const compile_options &options) {
    const int64_t before = counted_bytes();
    executable_step step = choose_kernel(
            lowered, program.engine_kind, options, the_op.identity());
    program.table_bytes += static_cast<size_t>(
            std::max<int64_t>(0, counted_bytes() - before));
    step.output = lowered.output;
    for (const port_reference port : lowered.arguments) {
        step.arguments.push_back(index_of(the_op.port(port), ports));
        program.ports[step.arguments.back()].used = true;
    }
    // Two gradients of one op may both copy a tensor that they read.
    if (!program.steps.empty()) {
        const executable_step &earlier = program.steps.back();
        for (size_t index = 0; index
                < std::min(earlier.arguments.size(), step.arguments.size());
                ++index)
            if (earlier.arguments[index] == step.arguments[index])
                step.plan->share_copy(*earlier.plan, index);
    }
    // Steps run one after the other: they share the workspace.
    program.workspace_bytes
            = std::max(program.workspace_bytes, step.plan->workspace_bytes());
    program.steps.push_back(std::move(step));
}

/// `steps` are those of the ops that are lowered already.
std::shared_ptr<const executable> build(const std::vector<checked_op> &ops,
        std::vector<std::vector<lowered_step>> &steps,
        const std::vector<logical_tensor> &ports, size_t input_count,
        const engine &e, const compile_options &options) {
    auto program = std::make_shared<executable>();
    program->engine_kind = e.get_kind();
    program->engine_index = e.get_index();
    program->threads = options.threads;
    for (const logical_tensor &lt : ports) {
        executable_port port;
        port.lt = lt;
        port.output = program->ports.size() >= input_count;
        port.extent = lt.get_mem_size();
        program->ports.push_back(std::move(port));
    }
    for (size_t index = 0; index < ops.size(); ++index) {
        describe_ports(*program, ops[index], ports);
        if (steps[index].empty()) steps[index] = lower(ops[index]);
        for (const lowered_step &step : steps[index]) {
            add_step(*program, step, ops[index], ports, options);
            program->steps.back().op = index;
        }
    }
    return program;
}

/// "ConvBackward 'conv3x3' diff_weights convolution.cudnn".
void name_ranges(compiled_impl &compiled) {
    for (const executable_step &step : compiled.program->steps) {
        const checked_op &the_op = compiled.ops[step.op];
        const op &identity = the_op.identity();
        std::string name = to_string(identity.get_kind());
        if (!identity.get_name().empty())
            name += " '" + identity.get_name() + '\'';
        name += ' ' + output_name(the_op, step.output) + ' ' + step.kernel;
        compiled.range_names.push_back(std::move(name));
    }
}

void log_compilation(
        const compiled_impl &compiled, bool cache_hit, double milliseconds) {
    log_line line = compiled.common_line();
    line.event = cache_hit ? "compile:cache_hit" : "compile:cache_miss";
    line.milliseconds = log_milliseconds(milliseconds);
    write_log(line);
    if (log_level() < log_choices) return;
    for (const executable_step &step : compiled.program->steps)
        for (const auto *remarks : {&step.refusals, &step.timings})
            for (const kernel_remark &remark : *remarks) {
                log_line asked = compiled.common_line();
                asked.event = "dispatch";
                asked.steps
                        = text(step_text(compiled.ops[step.op], step.output),
                                ':', remark.kernel);
                asked.workspace_bytes.clear();
                asked.moved_bytes.clear();
                asked.note = remark.text;
                write_log(asked);
            }
}

} // namespace

std::vector<logical_tensor> output_ports(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> ports;
    for (const checked_op &the_op : ops)
        for (const logical_tensor &lt : the_op.outputs)
            if (!lt.is_absent()) ports.push_back(lt);
    return ports;
}

std::vector<logical_tensor> input_ports(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> ports;
    const auto is_new
            = [&, made = output_ports(ops)](const logical_tensor &lt) {
                  const auto same = [&](const logical_tensor &other) {
                      return other.get_id() == lt.get_id();
                  };
                  return std::none_of(made.begin(), made.end(), same)
                          && std::none_of(ports.begin(), ports.end(), same);
              };
    for (const checked_op &the_op : ops)
        for (const logical_tensor &lt : the_op.inputs)
            if (!lt.is_absent() && is_new(lt)) ports.push_back(lt);
    return ports;
}

std::shared_ptr<const compiled_impl> compile(const partition_impl &partition,
        const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs, const engine &e) {
    const auto start = std::chrono::steady_clock::now();
    const op &first = partition.ops.front().identity();
    if (!partition.unsupported.empty())
        throw error(status::invalid_arguments,
                op_label(first) + ": not supported: " + partition.unsupported);
    if (!e)
        throw error(status::invalid_arguments,
                op_label(first) + ": compile is given an empty engine");
    if (e.get_kind() != partition.engine_kind)
        throw error(status::invalid_arguments,
                text(op_label(first), ": compile is given a ",
                        to_string(e.get_kind()),
                        " engine; the partition is for ",
                        to_string(partition.engine_kind)));

    const compile_options options = options_of(partition, e);
    auto result = std::make_shared<compiled_impl>();
    result->partition_id = partition.id;
    result->id = new_compiled_id();
    given_tensors given(inputs, outputs);
    std::vector<std::vector<lowered_step>> steps;
    for (const checked_op &declared : partition.ops) {
        checked_op the_op = completed(declared, given);
        steps.push_back(
                lay_out_open_outputs(the_op, given, e.get_kind(), options));
        for (const logical_tensor &lt : the_op.outputs)
            if (!lt.is_absent()) given.replace(lt);
        result->ops.push_back(std::move(the_op));
    }
    given.check_all_used();
    dump_partition(partition, *result);
    result->ports = input_ports(result->ops);
    const size_t input_count = result->ports.size();
    for (logical_tensor &lt : output_ports(result->ops))
        result->ports.push_back(std::move(lt));

    const engine_impl &device = *access::impl(e);
    const std::string key = cache_key(result->ops, result->ports, e.get_kind(),
            device.cache_owner, options);
    result->program = find_cached(key);
    const bool hit = result->program != nullptr;
    if (!hit) {
        try {
            std::shared_ptr<const executable> made;
            device.while_compiling([&] {
                made = build(result->ops, steps, result->ports, input_count, e,
                        options);
            });
            const size_t table_bytes = made->table_bytes;
            result->program = keep_cached(
                    key, std::move(made), table_bytes, device.cache_owner);
        } catch (const std::bad_alloc &) {
            throw error(status::out_of_memory,
                    op_label(first)
                            + ": compile could not get the memory it needs");
        }
    }
    if (profiler_listens()) name_ranges(*result);
    if (log_level() >= log_events)
        log_compilation(*result, hit, milliseconds_since(start));
    return result;
}

} // namespace gradnn::detail
