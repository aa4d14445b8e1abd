#include "rotating_tensors.hpp"

#include "files/tensor_data.hpp"

namespace gradnn::driver {

rotating_tensors::rotating_tensors(
        const loaded_graph &graph, const graph_step &step, size_t copies) {
    for (const size_t id : step.inputs)
        add(inputs_, graph, id, copies);
    for (const size_t id : step.outputs)
        add(outputs_, graph, id, copies);
    for (const slots &each : inputs_)
        inputs.push_back(each.first);
    for (const slots &each : outputs_)
        outputs.push_back(each.first);
}

size_t rotating_tensors::slot_bytes(const logical_tensor &lt) {
    return (lt.get_mem_size() / 64 + 1) * 64;
}

void rotating_tensors::choose(size_t copy) {
    point(inputs, inputs_, copy);
    point(outputs, outputs_, copy);
}

void rotating_tensors::add(std::vector<slots> &to, const loaded_graph &graph,
        size_t id, size_t copies) {
    const graph_tensor &from = graph.tensors.at(id);
    slots made {tensor(from.lt, graph.device, nullptr), nullptr,
            slot_bytes(from.lt)};
    if (from.computed || from.read || !from.shape_values.empty()) {
        made.memory = std::make_unique<tensor_memory>(
                graph.memory_engine(from), made.bytes * copies);
        made.memory->poison();
        const bool filled = from.consumed || !from.shape_values.empty();
        for (size_t copy = 0; copy < copies && filled; ++copy)
            made.memory->edit(copy * made.bytes, made.bytes,
                    [&](std::byte *data) { fill(from, data, copy); });
    }
    to.push_back(std::move(made));
}

void rotating_tensors::fill(const graph_tensor &from, void *data, size_t seed) {
    if (from.shape_values.empty()) {
        fill_randomly(from.lt, data, seed);
        return;
    }
    const std::vector<double> values(
            from.shape_values.begin(), from.shape_values.end());
    detail::store(from.lt, values, data);
}

void rotating_tensors::point(std::vector<tensor> &tensors,
        const std::vector<slots> &memory, size_t copy) {
    for (size_t index = 0; index < tensors.size(); ++index)
        if (memory[index].memory)
            tensors[index].set_data_handle(
                    memory[index].memory->data() + copy * memory[index].bytes);
}

} // namespace gradnn::driver
