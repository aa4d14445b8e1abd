// gradnn bench: times the partitions of graphs and says what share of the
// memory's and the arithmetic units' limits, measured in the same run, they
// reach.
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/input_error.hpp"
#include "base/text.hpp"
#include "bench_compare.hpp"
#include "bench_result.hpp"
#include "bench_table.hpp"
#include "commands.hpp"
#include "compute_limit.hpp"
#include "device_clock.hpp"
#include "kernel_steps.hpp"
#include "loaded_graph.hpp"
#include "machine_json.hpp"
#include "progress.hpp"
#include "step_timing.hpp"

namespace gradnn::driver {

using detail::text;
using json = nlohmann::ordered_json;

namespace {

/// Stands for standard output where --json names a file.
constexpr const char *standard_output = "-";

/// The compute limits of this run, each measured once, when it is asked for.
class compute_limits {
public:
    /// Null where the partition has no convolution.
    const compute_limit *find(
            const loaded_graph &graph, const graph_step &step) {
        for (const kernel_step &each : kernel_steps(step)) {
            if (each.flops == 0) continue;
            const std::pair key(each.type, graph.file.fpmath);
            const auto known = limits_.find(key);
            if (known != limits_.end()) return &known->second;
            return &limits_.emplace(key,
                                   compute_limit(graph.device, each.type,
                                           graph.file.fpmath))
                            .first->second;
        }
        return nullptr;
    }

private:
    std::map<std::pair<logical_tensor::data_type, fpmath_mode>, compute_limit>
            limits_;
};

std::vector<loaded_graph> load_graphs(const bench_options &options) {
    std::vector<loaded_graph> graphs;
    engine_options how = options.engine;
    // Other kernels compute whole tensors of the caller's.
    how.ungrouped = how.ungrouped || options.every_kernel;
    for (const std::string &name : options.graphs)
        graphs.push_back(load_graph(name, how));
    for (const loaded_graph &graph : graphs)
        if (graph.device_name() != graphs.front().device_name())
            throw detail::input_error(graph.file.file, "engine_kind",
                    text("runs on ", graph.device_name(),
                            ", the first graph on ",
                            graphs.front().device_name(),
                            "; bench measures one engine at a time"));
    return graphs;
}

json measure(
        const std::vector<loaded_graph> &graphs, const bench_options &options) {
    progress line;
    line.show("gradnn bench: measuring the copy rate");
    json report;
    report["machine"] = machine_json();
    const engine &device = graphs.front().device;
    const double copy = copy_gb_per_s(device);
    report["copy_gb_per_s"] = copy;
    if (on_gpu(device)) {
        const empty_launch measured = measure_empty_launch(device);
        report["empty_launch"] = {{"device_ms", measured.device_ms},
                {"host_ms", measured.host_ms}};
    }
    report["memory"] = json::array();
    report["results"] = json::array();
    compute_limits limits;
    std::set<std::string> kernels; // of the partitions so far
    for (const loaded_graph &graph : graphs) {
        report["memory"].push_back(memory_result(graph));
        for (const graph_step &step : graph.steps) {
            const auto show = [&](const std::string &what) {
                line.show(text("gradnn bench: ", graph.file.file,
                        ": partition ", &step - graph.steps.data() + 1, " of ",
                        graph.steps.size(), ", ", what));
            };
            show("measuring the compute limit");
            const compute_limit *const compute = limits.find(graph, step);
            const step_timing timing = time_step(graph, step,
                    {options.seconds, options.latency, options.every_kernel,
                            compute, show});
            json result = bench_result(graph, step, timing, copy, compute);
            // Compiling a kernel for the first time loads libraries too.
            bool first = false;
            for (const step_info &info : step.compiled.get_info().steps)
                first |= kernels.insert(info.kernel).second;
            result["compile_first"] = first;
            report["results"].push_back(std::move(result));
        }
    }
    return report;
}

} // namespace

int bench(const bench_options &options) {
    if (options.graphs.empty()) throw usage_error("GRAPH.json is missing");
    // All that may be wrong with the input is found at once: whether the
    // report can be written, the old one, and the graphs.
    const bool to_output = options.json_file == standard_output;
    const bool to_file = !options.json_file.empty() && !to_output;
    if (to_file) detail::atomic_file probe(options.json_file);
    std::optional<json> old;
    if (!options.compared.empty()) old = read_bench_report(options.compared);
    // So that every compile time is that of compiling.
    set_compiled_partition_cache_capacity(0);
    const json report = measure(load_graphs(options), options);
    // Standard output holds the report alone where it is asked for there.
    std::ostream &tables = to_output ? std::cerr : std::cout;
    write_bench_table(report, tables);
    if (old) write_bench_comparison(*old, options.compared, report, tables);
    if (to_output) std::cout << report.dump(2) << '\n';
    if (to_file) {
        detail::atomic_file file(options.json_file);
        file.write(report.dump(2) + "\n");
        file.commit();
        say_written(options.json_file);
    }
    return 0;
}

} // namespace gradnn::driver
