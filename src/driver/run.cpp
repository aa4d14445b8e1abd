// gradnn run: executes a graph.
#include <cstdio>
#include <iostream>

#include "base/text.hpp"
#include "commands.hpp"
#include "session.hpp"
#include "table.hpp"

namespace gradnn::driver {

namespace {

std::string hexadecimal(uint64_t value) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx",
            static_cast<unsigned long long>(value));
    return text;
}

/// Tensors that nobody consumes, and those that the file calls outputs.
std::vector<size_t> final_outputs(const loaded_graph &graph) {
    std::vector<size_t> ids;
    for (const auto &[id, tensor] : graph.tensors) {
        const auto &ports = graph.file.output_ports;
        const bool named
                = std::find(ports.begin(), ports.end(), id) != ports.end();
        if (tensor.computed && (named || !tensor.consumed)) ids.push_back(id);
    }
    return ids;
}

} // namespace

int run(const session_options &options) {
    session work(options);
    const loaded_graph &graph = work.graph();
    table results(
            {"partition", "ops", "kernel", "backend", "time", "checksum"});
    for (const graph_step &step : graph.steps) {
        const step_result result = work.execute(step);
        results.add({detail::text(step.partition.get_id()),
                graph.op_kinds(step), step.kernels(), step.backends(),
                time_text(result.milliseconds), hexadecimal(result.checksum)});
    }
    work.write_outputs();
    std::cout << graph.file.file << " on " << graph.device_name() << ", seed "
              << options.seed << "; each partition executed once\n";
    results.write(std::cout);
    for (const size_t id : final_outputs(graph)) {
        const logical_tensor &lt = graph.tensors.at(id).lt;
        std::cout << "output " << id << ": " << to_string(lt.get_data_type())
                  << ' ' << detail::text_of(lt.get_dims()) << '\n';
    }
    return 0;
}

} // namespace gradnn::driver
