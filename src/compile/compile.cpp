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

namespace gradnn::detail {

namespace {

/// Where an elementwise op reads and writes alike, both may be one memory.
void find_inplace(executable &program, const checked_op &the_op,
        const std::vector<size_t> &inputs, size_t output) {
    if (the_op.schema().family != op_family::elementwise) return;
    const logical_tensor &out = program.ports[output].lt;
    for (const size_t index : inputs) {
        const logical_tensor &in = program.ports[index].lt;
        if (in.get_dims() == out.get_dims()
                && in.get_strides() == out.get_strides())
            program.inplace.emplace_back(index, output);
    }
}

/// Two gradients of one op may both copy a tensor that they read.
void share_copies(executable_step &earlier, executable_step &step) {
    const size_t count
            = std::min(earlier.arguments.size(), step.arguments.size());
    for (size_t index = 0; index < count; ++index)
        if (earlier.arguments[index] == step.arguments[index])
            step.plan->share_copy(*earlier.plan, index);
}

std::shared_ptr<const executable> build(const std::vector<checked_op> &ops,
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
    const auto index_of = [&](const logical_tensor &lt) {
        return static_cast<size_t>(std::find_if(ports.begin(), ports.end(),
                                           [&](const logical_tensor &port) {
                                               return port.get_id()
                                                       == lt.get_id();
                                           })
                - ports.begin());
    };
    for (const checked_op &the_op : ops) {
        const int shape = port_index(the_op.schema().inputs, port_role::shape);
        if (shape >= 0) {
            const auto &lt = the_op.inputs[static_cast<size_t>(shape)];
            if (!lt.is_absent()) {
                executable_port &port = program->ports[index_of(lt)];
                port.is_shape = true;
                port.expected = expected_shape_input(the_op);
            }
        }
        for (const lowered_step &lowered : lower(the_op)) {
            const int64_t before = counted_bytes();
            executable_step step = choose_kernel(
                    lowered, program->engine_kind, options, the_op.identity());
            program->table_bytes += static_cast<size_t>(
                    std::max<int64_t>(0, counted_bytes() - before));
            for (const port_reference port : lowered.arguments) {
                const size_t index = index_of(the_op.port(port));
                program->ports[index].used = true;
                step.arguments.push_back(index);
                if (port.output) step.output = port.index;
            }
            step.op = static_cast<size_t>(&the_op - ops.data());
            if (!program->steps.empty())
                share_copies(program->steps.back(), step);
            // Steps run one after the other: they share the workspace.
            program->workspace_bytes = std::max(
                    program->workspace_bytes, step.plan->workspace_bytes());
            program->steps.push_back(std::move(step));
        }
        std::vector<size_t> inputs;
        for (const logical_tensor &lt : the_op.inputs)
            if (!lt.is_absent()) inputs.push_back(index_of(lt));
        find_inplace(
                *program, the_op, inputs, index_of(the_op.outputs.front()));
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
    for (const checked_op &declared : partition.ops)
        result->ops.push_back(
                completed(declared, given, e.get_kind(), options));
    given.check_all_used();
    dump_partition(partition, *result);
    result->ports = input_ports(result->ops);
    const size_t input_count = result->ports.size();
    const auto outs = output_ports(result->ops);
    result->ports.insert(result->ports.end(), outs.begin(), outs.end());

    const engine_impl &device = *access::impl(e);
    const std::string key = cache_key(result->ops, result->ports, e.get_kind(),
            device.cache_owner, options);
    result->program = find_cached(key);
    const bool hit = result->program != nullptr;
    if (!hit) {
        try {
            std::shared_ptr<const executable> made;
            device.while_compiling([&] {
                made = build(
                        result->ops, result->ports, input_count, e, options);
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
