#include "compile.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "cache.hpp"
#include "compile_settings.hpp"
#include "engine_impl.hpp"
#include "executable.hpp"
#include "gpu/backend.hpp"
#include "graph_dump.hpp"
#include "kernel_choice.hpp"
#include "logical_tensor_tools.hpp"
#include "lowering.hpp"
#include "op_check.hpp"
#include "shapes.hpp"
#include "text.hpp"
#include "unique_ids.hpp"

namespace gradnn::detail {

namespace {

using layout_type = logical_tensor::layout_type;

op with_ports(const op &the_op, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs) {
    op result(the_op.get_id(), the_op.get_kind(), inputs, outputs,
            the_op.get_name());
    for (const auto &[name, value] : the_op.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    return result;
}

/// What the caller says of the tensors, by id.
class given_tensors {
public:
    given_tensors(const std::vector<logical_tensor> &inputs,
            const std::vector<logical_tensor> &outputs) {
        for (const auto *list : {&inputs, &outputs})
            for (const logical_tensor &lt : *list)
                if (!lt.is_absent()) by_id_[lt.get_id()] = lt;
    }

    const logical_tensor &find(
            const op &the_op, const logical_tensor &declared) {
        const auto found = by_id_.find(declared.get_id());
        if (found == by_id_.end())
            throw error(status::invalid_arguments,
                    text(op_label(the_op), ": compile is not given tensor ",
                            declared.get_id(), ", a port of the partition"));
        const logical_tensor &lt = found->second;
        if (lt.get_data_type() != declared.get_data_type())
            fail_type(the_op,
                    text("compile is given tensor ", lt.get_id(), " as ",
                            to_string(lt.get_data_type()),
                            "; the op was built with ",
                            to_string(declared.get_data_type())));
        if (dims_known(declared) && dims_known(lt)
                && lt.get_dims() != declared.get_dims())
            fail_shape(the_op,
                    text("compile is given tensor ", lt.get_id(), " with dims ",
                            text_of(lt.get_dims()), "; the op was built with ",
                            text_of(declared.get_dims())));
        used_.insert(lt.get_id());
        return lt;
    }

    void replace(const logical_tensor &lt) { by_id_[lt.get_id()] = lt; }

    void check_all_used() const {
        for (const auto &[id, lt] : by_id_)
            if (!used_.contains(id))
                throw error(status::invalid_arguments,
                        text("compile is given tensor ", id,
                                ", which is no port of the partition"));
    }

private:
    std::map<size_t, logical_tensor> by_id_;
    std::set<size_t> used_;
};

/// Dims that are known win over those that the op was built with.
logical_tensor merged(
        const logical_tensor &given, const logical_tensor &declared) {
    if (dims_known(given) || !dims_known(declared)) return given;
    return {given.get_id(), given.get_data_type(), declared.get_dims(),
            given.get_layout_type(), given.get_property_type()};
}

/// An output whose layout is the library's choice nests its axes as the first
/// input of its rank does: a channels-last gradient of channels-last data. Where
/// a kernel prefers another, with_preferred_layouts changes that.
logical_tensor with_layout(const op &the_op, const logical_tensor &lt) {
    if (lt.get_layout_type() == layout_type::strided) return lt;
    const auto dims = lt.get_dims();
    auto strides = dense_strides(dims);
    const op_schema &schema = *find_schema(the_op.get_kind());
    const bool is_weights = port_index(schema.outputs, port_role::weights) >= 0
            && the_op
                            .get_outputs()[static_cast<size_t>(port_index(
                                    schema.outputs, port_role::weights))]
                            .get_id()
                    == lt.get_id();
    const auto &first = the_op.get_inputs()[0];
    if (!is_weights && first.get_dims().size() == dims.size())
        strides = strides_like(dims, first.get_strides());
    return {lt.get_id(), lt.get_data_type(), dims, strides,
            lt.get_property_type()};
}

/// A dense tensor with the channels side by side.
logical_tensor channels_last(const op &the_op, const logical_tensor &lt) {
    const auto dims = lt.get_dims();
    const auto rank = static_cast<int>(dims.size());
    const auto channels = static_cast<size_t>(channel_axis(the_op, rank));
    auto strides = lt.get_strides();
    int64_t next = dims[channels];
    strides[channels] = 1;
    for (size_t axis = dims.size(); axis-- > 0;) {
        if (axis == channels) continue;
        strides[axis] = next;
        next *= dims[axis];
    }
    return {lt.get_id(), lt.get_data_type(), dims, strides,
            lt.get_property_type()};
}

/// The op with those outputs channels last, of those that `chosen` names, whose
/// kernels rather write them so.
op with_preferred_layouts(const op &the_op, const std::vector<bool> &chosen,
        engine::kind kind, const compile_options &options) {
    std::vector<logical_tensor> outputs = the_op.get_outputs();
    for (const lowered_step &step : lower(the_op)) {
        for (const port_reference port : step.arguments) {
            if (!port.output || !chosen[port.index]
                    || !writes_channels_last(step, kind, options))
                continue;
            logical_tensor &lt = outputs[port.index];
            lt = channels_last(the_op, lt);
        }
    }
    return with_ports(the_op, the_op.get_inputs(), outputs);
}

/// The op with every port's shape and layout known.
op completed(const op &declared, given_tensors &given, engine::kind kind,
        const compile_options &options) {
    std::vector<logical_tensor> inputs = declared.get_inputs();
    std::vector<logical_tensor> outputs = declared.get_outputs();
    for (auto *list : {&inputs, &outputs})
        for (logical_tensor &lt : *list)
            if (!lt.is_absent()) lt = merged(given.find(declared, lt), lt);
    const op_schema &schema = *find_schema(declared.get_kind());
    for (size_t index = 0; index < inputs.size(); ++index) {
        const logical_tensor &lt = inputs[index];
        if (lt.is_absent()) continue;
        if (!dims_known(lt) || lt.get_layout_type() != layout_type::strided)
            fail_shape(declared,
                    port_label(false, index, schema.inputs[index])
                            + " must have known dims and a strided layout at "
                              "compile");
    }
    op result
            = with_shapes(checked(with_ports(declared, inputs, outputs)), true);
    outputs = result.get_outputs();
    std::vector<bool> chosen; // by the library
    for (logical_tensor &lt : outputs) {
        chosen.push_back(!lt.is_absent()
                && lt.get_layout_type() != layout_type::strided);
        if (!lt.is_absent()) lt = with_layout(result, lt);
    }
    // The chosen layouts too must fit in memory.
    result = checked(with_ports(result, result.get_inputs(), outputs));
    if (std::find(chosen.begin(), chosen.end(), true) != chosen.end())
        result = checked(with_preferred_layouts(result, chosen, kind, options));
    for (const logical_tensor &lt : result.get_outputs())
        if (!lt.is_absent()) given.replace(lt);
    return result;
}

template <typename Type>
constexpr bool is_real_list
        = std::is_same_v<Type,
                  std::vector<
                          float>> || std::is_same_v<Type, std::vector<double>>;

/// All that decides what is compiled, and no names.
std::string cache_key(const std::vector<op> &ops,
        const std::vector<logical_tensor> &ports, engine::kind kind,
        size_t owner, const compile_options &options) {
    std::ostringstream key;
    key << static_cast<int>(kind) << ' ' << owner << ' ' << key_of(options);
    const auto port_of = [&](const logical_tensor &lt) {
        return lt.is_absent() ? -1
                              : std::find_if(ports.begin(), ports.end(),
                                        [&](const logical_tensor &port) {
                                            return port.get_id() == lt.get_id();
                                        })
                        - ports.begin();
    };
    for (const op &the_op : ops) {
        key << static_cast<int>(the_op.get_kind());
        for (const auto &[name, value] : the_op.get_attrs()) {
            key << ' ' << static_cast<int>(name) << '=';
            std::visit(
                    [&](const auto &v) {
                        using value_type = std::decay_t<decltype(v)>;
                        if constexpr (std::is_same_v<value_type,
                                              std::vector<int64_t>>)
                            key << text_of(std::span<const int64_t>(v));
                        else if constexpr (is_real_list<value_type>)
                            for (const auto each : v)
                                key << std::hexfloat << each << ';';
                        else
                            key << v;
                    },
                    value);
        }
        for (const auto *list : {&the_op.get_inputs(), &the_op.get_outputs()})
            for (const logical_tensor &lt : *list)
                key << " p" << port_of(lt);
        key << '\n';
    }
    for (const logical_tensor &lt : ports)
        key << to_string(lt.get_data_type()) << text_of(lt.get_dims())
            << text_of(lt.get_strides()) << '\n';
    return key.str();
}

/// Where an elementwise op reads and writes alike, both may be one memory.
void find_inplace(executable &program, const op &the_op,
        const std::vector<size_t> &inputs, size_t output) {
    if (find_schema(the_op.get_kind())->family != op_family::elementwise)
        return;
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

std::shared_ptr<const executable> build(const std::vector<op> &ops,
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
    for (const op &the_op : ops) {
        const op_schema &schema = *find_schema(the_op.get_kind());
        const int shape = port_index(schema.inputs, port_role::shape);
        if (shape >= 0) {
            const auto &lt = the_op.get_inputs()[static_cast<size_t>(shape)];
            if (!lt.is_absent()) {
                executable_port &port = program->ports[index_of(lt)];
                port.is_shape = true;
                port.expected = expected_shape_input(the_op);
            }
        }
        for (const lowered_step &lowered : lower(the_op)) {
            executable_step step = choose_kernel(
                    lowered, program->engine_kind, options, the_op);
            for (const port_reference port : lowered.arguments) {
                const size_t index = index_of(port.output
                                ? the_op.get_outputs()[port.index]
                                : the_op.get_inputs()[port.index]);
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
        for (const logical_tensor &lt : the_op.get_inputs())
            if (!lt.is_absent()) inputs.push_back(index_of(lt));
        find_inplace(*program, the_op, inputs,
                index_of(the_op.get_outputs().front()));
    }
    return program;
}

/// "ConvBackward 'conv3x3' diff_weights convolution.cudnn".
void name_ranges(compiled_impl &compiled) {
    for (const executable_step &step : compiled.program->steps) {
        const op &the_op = compiled.ops[step.op];
        std::string name = to_string(the_op.get_kind());
        if (!the_op.get_name().empty()) name += " '" + the_op.get_name() + '\'';
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
    if (log_level() < log_refusals) return;
    for (const executable_step &step : compiled.program->steps)
        for (const kernel_refusal &refusal : step.refusals) {
            log_line refused = compiled.common_line();
            refused.event = "dispatch";
            refused.steps = text(step_text(compiled.ops[step.op], step.output),
                    ':', refusal.kernel);
            refused.workspace_bytes.clear();
            refused.moved_bytes.clear();
            refused.note = refusal.reason;
            write_log(refused);
        }
}

} // namespace

std::vector<logical_tensor> output_ports(const std::vector<op> &ops) {
    std::vector<logical_tensor> ports;
    for (const op &the_op : ops)
        for (const logical_tensor &lt : the_op.get_outputs())
            if (!lt.is_absent()) ports.push_back(lt);
    return ports;
}

std::vector<logical_tensor> input_ports(const std::vector<op> &ops) {
    std::set<size_t> known;
    for (const logical_tensor &lt : output_ports(ops))
        known.insert(lt.get_id());
    std::vector<logical_tensor> ports;
    for (const op &the_op : ops)
        for (const logical_tensor &lt : the_op.get_inputs())
            if (!lt.is_absent() && known.insert(lt.get_id()).second)
                ports.push_back(lt);
    return ports;
}

std::shared_ptr<const compiled_impl> compile(const partition_impl &partition,
        const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs, const engine &e) {
    const auto start = std::chrono::steady_clock::now();
    const std::string label = op_label(partition.ops.front());
    if (!partition.unsupported.empty())
        throw error(status::invalid_arguments,
                label + ": not supported: " + partition.unsupported);
    if (!e)
        throw error(status::invalid_arguments,
                label + ": compile is given an empty engine");
    if (e.get_kind() != partition.engine_kind)
        throw error(status::invalid_arguments,
                text(label, ": compile is given a ", to_string(e.get_kind()),
                        " engine; the partition is for ",
                        to_string(partition.engine_kind)));

    const compile_options options = options_of(partition, e);
    auto result = std::make_shared<compiled_impl>();
    result->partition_id = partition.id;
    result->id = new_compiled_id();
    given_tensors given(inputs, outputs);
    for (const op &declared : partition.ops)
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
            result->program
                    = keep_cached(key, std::move(made), device.cache_owner);
        } catch (const std::bad_alloc &) {
            throw error(status::out_of_memory,
                    label + ": compile could not get the memory it needs");
        }
    }
    if (gpu::profiler_listens()) name_ranges(*result);
    if (log_level() >= log_events)
        log_compilation(*result, hit, milliseconds_since(start));
    return result;
}

} // namespace gradnn::detail
