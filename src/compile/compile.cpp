#include "compile/compile.hpp"

#include <algorithm>

#include "base/profiler_range.hpp"
#include "base/text.hpp"
#include "base/unique_ids.hpp"
#include "compile/build.hpp"
#include "compile/cache_key.hpp"
#include "compile/compile_settings.hpp"
#include "compile/completion.hpp"
#include "compile/executable.hpp"
#include "compile/graph_dump.hpp"
#include "compile/kernel_choice.hpp"
#include "compile/lowering.hpp"
#include "compile/ports.hpp"
#include "kernel/engine_impl.hpp"
#include "kernel/executable_cache.hpp"
#include "op/labels.hpp"

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

/// "ConvBackward 'conv3x3' diff_weights convolution.cudnn".
void name_ranges(compiled_impl &compiled) {
    for (const executable_step &step : compiled.program->steps) {
        const checked_op &the_op = compiled.ops[step.op];
        const op &identity = the_op.identity();
        std::string name = to_string(identity.get_kind());
        if (!identity.get_name().empty())
            name += " '" + identity.get_name() + '\'';
        name += ' ' + output_name(the_op, step) + ' ' + step.kernel;
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
                asked.steps = text(step_text(compiled.ops[step.op], step), ':',
                        remark.kernel);
                asked.workspace_bytes.clear();
                asked.moved_bytes.clear();
                asked.note = remark.text;
                write_log(asked);
            }
}

} // namespace

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
    result->inner = inner_tensors(partition.ops);
    for (const logical_tensor &lt : result->inner)
        given.add_inner(lt, first);
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

    result->inner = inner_tensors(result->ops);
    std::vector<logical_tensor> tensors = result->ports;
    tensors.insert(tensors.end(), result->inner.begin(), result->inner.end());

    const engine_impl &device = *access::impl(e);
    const std::string key = cache_key(
            result->ops, tensors, e.get_kind(), device.cache_owner, options);
    result->program = find_cached(key);
    const bool hit = result->program != nullptr;
    if (!hit) {
        try {
            std::shared_ptr<const executable> made;
            device.while_compiling([&] {
                made = build(*result, tensors, input_count, e, options, steps);
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
