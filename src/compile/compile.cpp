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
#include "kernel/backend.hpp"
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
        const logical_tensor &lt, const std::vector<logical_tensor> &tensors) {
    const auto found = std::find_if(
            tensors.begin(), tensors.end(), [&](const logical_tensor &each) {
                return each.get_id() == lt.get_id();
            });
    return static_cast<size_t>(found - tensors.begin());
}

/// From ops whose tensors are laid out to an executable. `tensors` are its ports
/// and behind them its inner tensors.
class builder {
public:
    builder(const compiled_impl &compiled,
            const std::vector<logical_tensor> &tensors, size_t input_count,
            const engine &e, const compile_options &options)
        : ops_(compiled.ops),
          tensors_(tensors),
          options_(options),
          program_(std::make_shared<executable>()) {
        program_->engine_kind = e.get_kind();
        program_->engine_index = e.get_index();
        program_->threads = options.threads;
        for (const logical_tensor &lt : compiled.ports) {
            executable_port port;
            port.lt = lt;
            port.output = program_->ports.size() >= input_count;
            port.extent = lt.get_mem_size();
            program_->ports.push_back(std::move(port));
        }
        program_->inner.resize(compiled.inner.size());
    }

    /// `steps` are those of the ops that are lowered already.
    std::shared_ptr<const executable> build(
            std::vector<std::vector<lowered_step>> &steps) {
        for (size_t index = 0; index < ops_.size(); ++index) {
            describe_tensors(ops_[index]);
            if (steps[index].empty()) steps[index] = lower(ops_[index]);
            for (const lowered_step &step : steps[index])
                add_step(step, index);
        }
        program_->workspace_bytes = program_->inner_bytes + scratch_bytes_;
        return program_;
    }

private:
    bool is_port(size_t place) const { return place < program_->ports.size(); }

    /// What execute must know of an op's tensors: the values of a shape input, where
    /// an elementwise op reads and writes alike, so that both may be one memory, and
    /// where inner tensors lie.
    void describe_tensors(const checked_op &the_op) {
        for (const logical_tensor &lt : the_op.outputs)
            if (!lt.is_absent() && !is_port(index_of(lt, tensors_)))
                place_inner(lt, the_op);
        const size_t output = index_of(the_op.outputs.front(), tensors_);
        for (size_t index = 0; index < the_op.inputs.size(); ++index) {
            const logical_tensor &lt = the_op.inputs[index];
            if (lt.is_absent()) continue;
            const size_t place = index_of(lt, tensors_);
            if (the_op.row({false, index}).role == port_role::shape) {
                program_->ports[place].is_shape = true;
                program_->ports[place].expected = expected_shape_input(the_op);
            }
            // An op with such an output is the last one: no step reads on.
            if (is_port(place) && is_port(output) && may_replace(the_op, lt))
                program_->inplace.emplace_back(place, output);
        }
    }

    /// Whether an elementwise op's output may have the memory of an input.
    static bool may_replace(
            const checked_op &the_op, const logical_tensor &lt) {
        const logical_tensor &output = the_op.outputs.front();
        return the_op.schema().family == op_family::elementwise
                && same_dims(lt, output)
                && std::ranges::equal(strides_of(lt), strides_of(output));
    }

    /// Behind the inner tensors before it, or in the place of the one that its op
    /// is the only one to read.
    void place_inner(const logical_tensor &lt, const checked_op &the_op) {
        size_t &offset = inner(index_of(lt, tensors_));
        for (const logical_tensor &read : the_op.inputs) {
            if (read.is_absent()) continue;
            const size_t place = index_of(read, tensors_);
            if (is_port(place) || !may_replace(the_op, read)) continue;
            offset = inner(place);
            return;
        }
        offset = program_->inner_bytes;
        program_->inner_bytes += (lt.get_mem_size() + workspace_alignment - 1)
                / workspace_alignment * workspace_alignment;
    }

    /// The offset of an inner tensor.
    size_t &inner(size_t place) {
        return program_->inner[place - program_->ports.size()];
    }

    /// A step with its kernel, after those that the program has.
    void add_step(const lowered_step &lowered, size_t op_index) {
        const checked_op &the_op = ops_[op_index];
        const int64_t before = counted_bytes();
        executable_step step = choose_kernel(
                lowered, program_->engine_kind, options_, the_op.identity());
        program_->table_bytes += static_cast<size_t>(
                std::max<int64_t>(0, counted_bytes() - before));
        step.op = op_index;
        step.output = lowered.output;
        for (const port_reference port : lowered.arguments) {
            const size_t place = index_of(the_op.port(port), tensors_);
            step.arguments.push_back(place);
            if (is_port(place)) program_->ports[place].used = true;
        }
        share_copies(step);
        // Steps run one after the other: they share their scratch.
        scratch_bytes_ = std::max(scratch_bytes_, step.plan->workspace_bytes());
        program_->steps.push_back(std::move(step));
    }

    /// Two gradients of one op may both copy a tensor that they read.
    void share_copies(executable_step &step) {
        if (program_->steps.empty()) return;
        const executable_step &earlier = program_->steps.back();
        if (earlier.op != step.op) return;
        for (size_t index = 0; index
                < std::min(earlier.arguments.size(), step.arguments.size());
                ++index)
            if (earlier.arguments[index] == step.arguments[index])
                step.plan->share_copy(*earlier.plan, index);
    }

    const std::vector<checked_op> &ops_;
    const std::vector<logical_tensor> &tensors_;
    const compile_options &options_;
    std::shared_ptr<executable> program_;
    size_t scratch_bytes_ = 0;
};

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

std::vector<logical_tensor> inner_tensors(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> inner;
    const auto is_laid_out = [](const logical_tensor &lt) {
        return dims_known(lt)
                && lt.get_layout_type() == logical_tensor::layout_type::strided;
    };
    for (size_t maker = 0; maker + 1 < ops.size(); ++maker)
        for (const logical_tensor &made : ops[maker].outputs)
            for (size_t reader = maker + 1; reader < ops.size(); ++reader)
                for (const logical_tensor &read : ops[reader].inputs)
                    if (!made.is_absent() && read.get_id() == made.get_id())
                        inner.push_back(is_laid_out(read) ? read : made);
    return inner;
}

std::vector<logical_tensor> output_ports(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> ports;
    const std::vector<logical_tensor> inner = inner_tensors(ops);
    for (const checked_op &the_op : ops)
        for (const logical_tensor &lt : the_op.outputs)
            if (!lt.is_absent() && index_of(lt, inner) == inner.size())
                ports.push_back(lt);
    return ports;
}

std::vector<logical_tensor> input_ports(const std::vector<checked_op> &ops) {
    std::vector<logical_tensor> ports;
    const std::vector<logical_tensor> inner = inner_tensors(ops);
    const auto is_new = [&](const logical_tensor &lt) {
        return index_of(lt, inner) == inner.size()
                && index_of(lt, ports) == ports.size();
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
                made = builder(*result, tensors, input_count, e, options)
                               .build(steps);
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
