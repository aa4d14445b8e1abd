#include "mistakes.hpp"

#include <algorithm>

#include "kernel/problem.hpp"

namespace gradnn::fuzz {

namespace {

template <typename Type>
Type &any_of(random_source &numbers, std::vector<Type> &list) {
    return list[static_cast<size_t>(
            numbers.integer(0, static_cast<int64_t>(list.size()) - 1))];
}

logical_tensor with_type(const logical_tensor &lt, data_type type) {
    return {lt.get_id(), type, lt.get_dims(), lt.get_layout_type()};
}

logical_tensor with_dims(const logical_tensor &lt, const dims &shape) {
    return {lt.get_id(), lt.get_data_type(), shape, layout_type::strided};
}

dims changed(random_source &numbers, dims shape) {
    if (shape.empty() || happens(numbers, 20)) {
        shape.push_back(2);
        return shape;
    }
    int64_t &dim = shape[static_cast<size_t>(
            numbers.integer(0, static_cast<int64_t>(shape.size()) - 1))];
    dim += numbers.integer(1, 3);
    return shape;
}

void execute_with_dims(sample &s, random_source &numbers) {
    tensor &which
            = any_of(numbers, happens(numbers, 50) ? s.inputs : s.outputs);
    const logical_tensor lt = which.get_logical_tensor();
    which = tensor(with_dims(lt, changed(numbers, lt.get_dims())), s.device,
            which.get_data_handle());
    s.execute();
}

void execute_with_type(sample &s, random_source &numbers) {
    tensor &which
            = any_of(numbers, happens(numbers, 50) ? s.inputs : s.outputs);
    const logical_tensor lt = which.get_logical_tensor();
    which = tensor(
            with_type(lt, data_type::u8), s.device, which.get_data_handle());
    s.execute();
}

void execute_without(sample &s, random_source &numbers) {
    std::vector<tensor> &list = happens(numbers, 50) ? s.inputs : s.outputs;
    list.erase(list.begin()
            + numbers.integer(0, static_cast<int64_t>(list.size()) - 1));
    s.execute();
}

void execute_with_null(sample &s, random_source &numbers) {
    any_of(numbers, s.outputs).set_data_handle(nullptr);
    s.execute();
}

void execute_unaligned(sample &s, random_source &numbers) {
    tensor &which = any_of(numbers, s.outputs);
    which.set_data_handle(
            static_cast<std::byte *>(which.get_data_handle()) + 1);
    s.execute();
}

void execute_empty_stream(sample &s, random_source &) {
    stream empty;
    s.compiled.execute(empty, s.inputs, s.outputs);
}

/// Whether the op's sums have terms: of others no input is read.
bool reads_inputs(const sample &s) {
    const bool elementwise = s.the_op.get_kind() == op::kind::Add
            || s.the_op.get_kind() == op::kind::ReLUBackward;
    const auto steps = s.compiled.get_info().steps;
    return elementwise
            || std::all_of(
                    steps.begin(), steps.end(), [](const step_info &step) {
                        return step.kernel.rfind("elementwise", 0) != 0;
                    });
}

void execute_overlapping(sample &s, random_source &numbers) {
    // The output's last element is the first of an input that is read.
    const bool interpolation
            = s.the_op.get_kind() == op::kind::InterpolateBackward;
    const tensor &input = s.inputs[interpolation ? 1 : 0];
    tensor &output = any_of(numbers, s.outputs);
    const logical_tensor lt = output.get_logical_tensor();
    const auto size = static_cast<size_t>(detail::size_of(lt.get_data_type()));
    const size_t bytes = lt.get_mem_size();
    // Of one element: ops element by element may work in place.
    if (bytes == size || !reads_inputs(s))
        return execute_empty_stream(s, numbers);
    // Both in one memory, which survives where no error is thrown.
    const size_t shared = input.get_logical_tensor().get_mem_size();
    auto both = std::make_unique<buffer>(
            s.device, bytes + shared, 0, buffer::role::output);
    auto *const begin = static_cast<std::byte *>(both->data());
    const size_t id = input.get_logical_tensor().get_id();
    for (tensor &each : s.inputs)
        if (each.get_logical_tensor().get_id() == id)
            each.set_data_handle(begin + (bytes - size));
    output.set_data_handle(begin);
    s.memory.push_back(std::move(both)); // an output's: to stay untouched
    s.execute();
}

void execute_empty_partition(sample &s, random_source &) {
    stream queue(s.device);
    compiled_partition().execute(queue, s.inputs, s.outputs);
}

void execute_bad_workspace(sample &s, random_source &numbers) {
    stream queue(s.device);
    if (s.compiled.get_workspace_size() == 0) // any would be right
        return execute_empty_stream(s, numbers);
    void *const workspace = happens(numbers, 50)
            ? nullptr
            : static_cast<std::byte *>(s.inputs[0].get_data_handle()) + 8;
    s.compiled.execute(queue, s.inputs, s.outputs, workspace);
}

void execute_empty_tensors(sample &s, random_source &numbers) {
    any_of(numbers, happens(numbers, 50) ? s.inputs : s.outputs) = tensor();
    s.execute();
}

void compile_with_type(sample &s, random_source &numbers) {
    auto inputs = s.input_tensors();
    logical_tensor &which = any_of(numbers, inputs);
    which = with_type(which,
            which.get_data_type() == data_type::f32 ? data_type::f64
                                                    : data_type::f32);
    s.the_partition.compile(inputs, s.output_tensors(), s.device);
}

void compile_with_dims(sample &s, random_source &numbers) {
    auto inputs = s.input_tensors();
    logical_tensor &which = any_of(numbers, inputs);
    which = with_dims(which, changed(numbers, which.get_dims()));
    s.the_partition.compile(inputs, s.output_tensors(), s.device);
}

void compile_without(sample &s, random_source &numbers) {
    auto inputs = s.input_tensors();
    const size_t id = any_of(numbers, inputs).get_id();
    std::erase_if(inputs,
            [&](const logical_tensor &each) { return each.get_id() == id; });
    s.the_partition.compile(inputs, s.output_tensors(), s.device);
}

void compile_with_more(sample &s, random_source &) {
    auto inputs = s.input_tensors();
    inputs.emplace_back(77, data_type::f32, dims {2}, layout_type::strided);
    s.the_partition.compile(inputs, s.output_tensors(), s.device);
}

void compile_without_engine(sample &s, random_source &) {
    s.the_partition.compile(s.input_tensors(), s.output_tensors(), engine());
}

void compile_empty(sample &s, random_source &) {
    partition().compile(s.input_tensors(), s.output_tensors(), s.device);
}

void partitions_of_unfinished_graph(sample &s, random_source &) {
    graph g(s.device.get_kind());
    g.add_op(s.the_op);
    g.get_partitions();
}

void same_op_twice(sample &s, random_source &) {
    graph g(s.device.get_kind());
    g.add_op(s.the_op);
    g.add_op(s.the_op);
    g.finalize();
}

void add_to_finished_graph(sample &s, random_source &) {
    graph g(s.device.get_kind());
    g.add_op(s.the_op);
    g.finalize();
    g.add_op(s.the_op);
}

/// An op like this one with its ports changed.
op rebuilt(const op &from, const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs) {
    op result(from.get_id(), from.get_kind(), inputs, outputs);
    for (const auto &[name, value] : from.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    return result;
}

void too_many_ports(sample &s, random_source &numbers) {
    auto inputs = s.the_op.get_inputs();
    auto outputs = s.the_op.get_outputs();
    auto &list = happens(numbers, 50) ? inputs : outputs;
    for (size_t id = 50; id < 54; ++id)
        list.emplace_back(id, data_type::f32, dims {1}, layout_type::strided);
    graph(s.device.get_kind()).add_op(rebuilt(s.the_op, inputs, outputs));
}

void output_is_input(sample &s, random_source &) {
    auto outputs = s.the_op.get_outputs();
    for (logical_tensor &lt : outputs)
        if (!lt.is_absent())
            lt = logical_tensor(s.the_op.get_inputs()[0].get_id(),
                    lt.get_data_type(), lt.get_dims(), layout_type::strided);
    graph g(s.device.get_kind());
    g.add_op(rebuilt(s.the_op, s.the_op.get_inputs(), outputs));
    g.finalize();
}

void no_ports(sample &s, random_source &) {
    graph(s.device.get_kind()).add_op(rebuilt(s.the_op, {}, {}));
}

} // namespace

const std::vector<mistake> &mistakes() {
    static const std::vector<mistake> all {
            {"execute with other dims", execute_with_dims},
            {"execute with another type", execute_with_type},
            {"execute without a tensor", execute_without},
            {"execute with a null output", execute_with_null},
            {"execute with an unaligned output", execute_unaligned},
            {"execute with overlapping tensors", execute_overlapping},
            {"execute an empty compiled partition", execute_empty_partition},
            {"execute on an empty stream", execute_empty_stream},
            {"execute with a wrong workspace", execute_bad_workspace},
            {"execute with an empty tensor", execute_empty_tensors},
            {"compile with another type", compile_with_type},
            {"compile with other dims", compile_with_dims},
            {"compile without an input", compile_without},
            {"compile with a tensor too many", compile_with_more},
            {"compile for an empty engine", compile_without_engine},
            {"compile an empty partition", compile_empty},
            {"partitions of an unfinished graph",
                    partitions_of_unfinished_graph},
            {"the same op twice", same_op_twice},
            {"an op added to a finished graph", add_to_finished_graph},
            {"too many ports", too_many_ports},
            {"an output that is an input", output_is_input},
            {"no ports", no_ports},
    };
    return all;
}

} // namespace gradnn::fuzz
