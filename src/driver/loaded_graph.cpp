#include "loaded_graph.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/input_error.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "compile/executable.hpp"
#include "device_clock.hpp"
#include "kernel/engine_impl.hpp"
#include "machine.hpp"
#include "op/op_schema.hpp"
#include "tensor/layout.hpp"
#include "tensor_memory.hpp"

namespace gradnn::driver {

using detail::input_error;
using detail::port_role;
using detail::text;

namespace {

using layout_type = logical_tensor::layout_type;

engine make_engine(const std::string &name, engine::kind by_default) {
    if (name.empty())
        return {by_default == engine::kind::any ? engine::kind::cpu
                                                : by_default,
                0};
    if (name == "cpu") return {engine::kind::cpu, 0};
    if (name == "gpu") return {engine::kind::gpu, 0};
    size_t index = 0;
    const std::string_view prefix = "gpu:";
    const char *const end = name.data() + name.size();
    if (name.starts_with(prefix) && name.size() > prefix.size()) {
        const auto [stop, failure]
                = std::from_chars(name.data() + prefix.size(), end, index);
        if (failure == std::errc() && stop == end)
            return {engine::kind::gpu, index};
    }
    throw usage_error(
            "--engine: given \"" + name + "\", allowed are cpu, gpu, gpu:N");
}

/// The part of an op that a message of the library is about, as a JSON path:
/// messages name it "attribute NAME", "input N (" or "output N (".
std::string place_of(size_t op_index, std::string_view message) {
    const auto word_after = [&](std::string_view key,
                                    std::string_view letters) {
        const size_t at = message.find(key);
        if (at == std::string_view::npos) return std::string();
        const std::string_view rest = message.substr(at + key.size());
        return std::string(rest.substr(0, rest.find_first_not_of(letters)));
    };
    const std::string op_path = text("graph[", op_index, "]");
    const std::string attribute
            = word_after(": attribute ", "abcdefghijklmnopqrstuvwxyz_");
    if (!attribute.empty()) return op_path + ".attrs." + attribute;
    for (const char *side : {"input", "output"}) {
        const std::string index
                = word_after(text(": ", side, " "), "0123456789");
        if (!index.empty()) return text(op_path, ".", side, "s[", index, "]");
    }
    return op_path;
}

/// Runs what the library may refuse, and says where in the file that is: at the op
/// of `ops` that the message names.
template <typename Body>
auto at_op(const detail::json_graph &file, const std::vector<size_t> &ops,
        const Body &body) {
    try {
        return body();
    } catch (const error &failure) {
        const std::string_view message = failure.what();
        size_t named = ops.front();
        for (const size_t index : ops)
            if (message.find(text("(op ", file.ops[index].get_id(), ")"))
                    != std::string_view::npos)
                named = index;
        throw input_error(file.file, place_of(named, message), failure.what());
    }
}

/// Whether an op uses the values of an input, and not only its shape.
bool reads_data(const op &the_op, size_t index) {
    const auto &inputs = detail::find_schema(the_op.get_kind())->inputs;
    const port_role role = inputs[index].role;
    if (role == port_role::shape) return false;
    if (role == port_role::source) // of a gradient the shape alone
        return the_op.get_kind() != op::kind::InterpolateBackward;
    const auto wanted = [&](size_t output) {
        return the_op.get_outputs().size() > output
                && !the_op.get_outputs()[output].is_absent();
    };
    const bool both = the_op.get_kind() == op::kind::ConvBackward
            || the_op.get_kind() == op::kind::ConvTransposeBackward;
    if (both && index == 1) return wanted(1); // src is for diff_weights
    if (both && index == 2) return wanted(0); // weights are for diff_src
    return true;
}

bool strided(const logical_tensor &lt) {
    return detail::dims_known(lt)
            && lt.get_layout_type() == layout_type::strided;
}

logical_tensor dense(const logical_tensor &lt) {
    return {lt.get_id(), lt.get_data_type(), lt.get_dims(),
            layout_type::strided, lt.get_property_type()};
}

/// Everything that is done op by op before partitions are compiled.
class loader {
public:
    loader(const std::string &file, const engine_options &options,
            std::set<size_t> wanted)
        : options_(options), wanted_(std::move(wanted)) {
        graph_.file = detail::read_json_graph(file);
        wanted_.insert(graph_.file.output_ports.begin(),
                graph_.file.output_ports.end());
        try {
            graph_.device
                    = make_engine(options.engine, graph_.file.engine_kind);
        } catch (const error &failure) {
            throw input_error(file,
                    options.engine.empty() ? "engine_kind" : "--engine",
                    failure.what());
        }
    }

    loaded_graph load() {
        const std::vector<partition> partitions = get_partitions();
        note_tensors();
        check_inputs();
        want_memory(graph_, graph_.memory_need());
        for (const partition &each : partitions)
            add_step(each);
        if (graph_.steps.empty())
            throw input_error(file(), "graph",
                    graph_.skipped.empty()
                            ? "there is nothing to run"
                            : "no op is gradnn's; " + graph_.skipped.front());
        want_memory(graph_, graph_.memory_need());
        return std::move(graph_);
    }

private:
    const std::string &file() const { return graph_.file.file; }

    std::vector<partition> get_partitions() {
        const auto &ops = graph_.file.ops;
        graph built(graph_.device.get_kind(), graph_.file.fpmath);
        built.set_deterministic(!options_.nondeterministic);
        compile_settings settings;
        settings.threads = options_.threads;
        built.set_compile_settings(settings);
        for (size_t index = 0; index < ops.size(); ++index) {
            at_op(graph_.file, {index}, [&] { built.add_op(ops[index]); });
            op_index_[ops[index].get_id()] = index;
        }
        end_wanted_tensors(built);
        try {
            built.finalize();
            return built.get_partitions(options_.ungrouped
                            ? partition::policy::debug
                            : partition::policy::fusion);
        } catch (const error &failure) {
            throw input_error(file(), "graph", failure.what());
        }
    }

    /// A tensor that an End reads is not inside a partition.
    void end_wanted_tensors(graph &built) const {
        size_t id = 0;
        for (const op &the_op : graph_.file.ops)
            for (const logical_tensor &lt : the_op.get_outputs()) {
                if (lt.is_absent() || !wanted_.contains(lt.get_id())) continue;
                while (op_index_.contains(id))
                    ++id;
                built.add_op(op(id++, op::kind::End, {lt}, {}));
            }
    }

    /// Of all descriptions of a tensor the one that says most is kept.
    void note_tensor(const op &the_op, size_t op_index, bool output,
            size_t port, const logical_tensor &lt) {
        if (lt.is_absent()) return;
        const auto [known, fresh] = graph_.tensors.emplace(lt.get_id(),
                graph_tensor {lt,
                        detail::json_port_path(op_index, output, port), false,
                        false, false, false, {}});
        graph_tensor &tensor = known->second;
        if (!strided(tensor.lt) && detail::dims_known(lt)) tensor.lt = lt;
        (output ? tensor.computed : tensor.consumed) = true;
        if (!output && reads_data(the_op, port)) tensor.read = true;
    }

    void note_tensors() {
        const auto &ops = graph_.file.ops;
        for (size_t index = 0; index < ops.size(); ++index) {
            // What gradnn cannot compute is not run: what it makes comes from
            // outside, and what it takes is an output.
            if (!detail::find_schema(ops[index].get_kind())) continue;
            for (const bool output : {false, true}) {
                const auto &ports = output ? ops[index].get_outputs()
                                           : ops[index].get_inputs();
                for (size_t port = 0; port < ports.size(); ++port)
                    note_tensor(ops[index], index, output, port, ports[port]);
            }
        }
    }

    /// An op of another library. End is no work, and not worth a word.
    void skip(size_t op_index, const std::string &reason) {
        const op &the_op = graph_.file.ops[op_index];
        if (the_op.get_kind() == op::kind::End) return;
        graph_.skipped.push_back(text("graph[", op_index,
                "]: ", to_string(the_op.get_kind()), " is skipped: ", reason));
    }

    /// What comes from outside must have a shape; without strides it is dense.
    void check_inputs() {
        for (auto &[id, tensor] : graph_.tensors) {
            if (tensor.computed) continue;
            if (!detail::dims_known(tensor.lt))
                throw input_error(file(), tensor.path + ".shape",
                        text("tensor ", id,
                                " is an input of the graph; its dims must be "
                                "known"));
            if (!strided(tensor.lt)) tensor.lt = dense(tensor.lt);
        }
    }

    void add_step(const partition &each) {
        graph_step step;
        step.partition = each;
        for (const size_t id : each.get_ops()) {
            const auto found = op_index_.find(id);
            if (found == op_index_.end()) return; // an End that is ours
            step.ops.push_back(found->second);
        }
        const size_t first = step.ops.front();
        if (!detail::find_schema(graph_.file.ops[first].get_kind()))
            return skip(first, each.unsupported_reason());
        if (!each.is_supported())
            throw input_error(file(), text("graph[", first, "]"),
                    each.unsupported_reason());
        std::vector<logical_tensor> inputs;
        std::vector<logical_tensor> outputs;
        for (const logical_tensor &lt : each.get_input_ports()) {
            step.inputs.push_back(lt.get_id());
            inputs.push_back(graph_.tensors.at(lt.get_id()).lt);
        }
        for (const logical_tensor &lt : each.get_output_ports()) {
            step.outputs.push_back(lt.get_id());
            outputs.push_back(compilable(graph_.tensors.at(lt.get_id()).lt));
        }
        const auto begin = std::chrono::steady_clock::now();
        step.compiled = at_op(graph_.file, step.ops,
                [&] { return each.compile(inputs, outputs, graph_.device); });
        step.compile_ms = milliseconds_since(begin);
        note_shape_values(step.compiled);
        for (const logical_tensor &lt : step.compiled.get_info().inner) {
            graph_.tensors.at(lt.get_id()).lt = lt;
            graph_.tensors.at(lt.get_id()).inner = true;
        }
        for (const size_t id : step.outputs)
            graph_.tensors.at(id).lt = step.compiled.query_logical_tensor(id);
        graph_.steps.push_back(std::move(step));
    }

    /// Where no strides are given the library chooses.
    static logical_tensor compilable(const logical_tensor &lt) {
        if (strided(lt) || lt.get_layout_type() == layout_type::any) return lt;
        try {
            return {lt.get_id(), lt.get_data_type(), lt.get_dims(),
                    layout_type::any, lt.get_property_type()};
        } catch (const error &) { // the rank is unknown
            return {lt.get_id(), lt.get_data_type(), layout_type::any};
        }
    }

    /// The values that compile found for shape inputs.
    void note_shape_values(const compiled_partition &made) {
        const detail::compiled_impl &compiled = *detail::access::impl(made);
        for (size_t index = 0; index < compiled.ports.size(); ++index) {
            const detail::executable_port &port
                    = compiled.program->ports[index];
            if (port.is_shape)
                graph_.tensors.at(compiled.ports[index].get_id()).shape_values
                        = port.expected;
        }
    }

    const engine_options options_;
    std::set<size_t> wanted_; ///< tensors that must not be inside a partition
    loaded_graph graph_;
    std::map<size_t, size_t> op_index_;
};

} // namespace

op loaded_graph::known_op(size_t index) const {
    const op &given = file.ops[index];
    const auto known = [&](std::vector<logical_tensor> ports) {
        for (logical_tensor &lt : ports)
            if (!lt.is_absent()) lt = tensors.at(lt.get_id()).lt;
        return ports;
    };
    op result(given.get_id(), given.get_kind(), known(given.get_inputs()),
            known(given.get_outputs()), given.get_name());
    for (const auto &[name, value] : given.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    return result;
}

std::string loaded_graph::op_kinds(const graph_step &step) const {
    std::string names;
    for (const size_t index : step.ops)
        names += std::string(names.empty() ? "" : "+")
                + to_string(file.ops[index].get_kind());
    return names;
}

std::string loaded_graph::device_name() const {
    if (device.get_kind() == engine::kind::cpu) return "cpu";
    return text("gpu:", device.get_index());
}

engine loaded_graph::memory_engine(const graph_tensor &tensor) const {
    return tensor.shape_values.empty() ? device : engine(engine::kind::cpu, 0);
}

int64_t loaded_graph::memory_need() const {
    int64_t need = 0;
    const auto add = [&](size_t bytes) {
        if (__builtin_add_overflow(need, static_cast<int64_t>(bytes), &need))
            need = std::numeric_limits<int64_t>::max();
    };
    for (const auto &[id, tensor] : tensors)
        if (!tensor.inner && detail::dims_known(tensor.lt))
            add(tensor.lt.get_mem_size());
    size_t workspace = 0;
    for (const graph_step &step : steps)
        workspace = std::max(workspace, step.compiled.get_workspace_size());
    add(workspace);
    return need;
}

loaded_graph load_graph(const std::string &file, const engine_options &options,
        std::set<size_t> wanted) {
#ifdef _OPENMP
    if (options.threads > 0) omp_set_num_threads(options.threads);
#endif
    loaded_graph graph = loader(file, options, std::move(wanted)).load();
    for (const std::string &line : graph.skipped)
        std::cerr << "gradnn: " << file << ": " << line << '\n';
    return graph;
}

void want_memory(const loaded_graph &graph, int64_t need) {
    const int64_t available = available_memory(graph.device);
    if (need <= available) return;
    // Name the largest tensor: a mistyped dim is the likely cause.
    const graph_tensor *largest = nullptr;
    for (const auto &[id, tensor] : graph.tensors)
        if (detail::dims_known(tensor.lt)
                && (!largest
                        || tensor.lt.get_mem_size()
                                > largest->lt.get_mem_size()))
            largest = &tensor;
    throw input_error(graph.file.file,
            largest ? largest->path + ".shape" : "graph",
            text("the graph needs ", bytes_text(need), " of memory, ",
                    bytes_text(available), " are available",
                    largest ? "; the largest tensor has shape "
                                    + detail::text_of(largest->lt.get_dims())
                            : std::string()));
}

} // namespace gradnn::driver
