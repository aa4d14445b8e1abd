// gradnn bench: times the partitions of graphs and says what share of the
// memory limit, measured in the same run, they reach.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "atomic_file.hpp"
#include "commands.hpp"
#include "device_clock.hpp"
#include "input_error.hpp"
#include "loaded_graph.hpp"
#include "machine_json.hpp"
#include "progress.hpp"
#include "step_timing.hpp"
#include "table.hpp"
#include "text.hpp"

namespace gradnn::driver {

using detail::text;
using json = nlohmann::ordered_json;

namespace {

struct bench_options {
    std::vector<std::string> graphs;
    engine_options engine;
    std::string json_file;
    double seconds = 1;
    bool latency = false;
};

json launch_json(const engine &gpu) {
    const empty_launch measured = measure_empty_launch(gpu);
    return {{"device_ms", measured.device_ms}, {"host_ms", measured.host_ms}};
}

json result_of(const loaded_graph &graph, const graph_step &step,
        const step_timing &timing, double copy_gb_per_s) {
    const step_traffic traffic = traffic_of(graph, step);
    const int64_t bytes = traffic.read + traffic.written;
    const double flops = flops_of(graph, step);
    const auto rate = [](double amount, double milliseconds) {
        return amount / std::max(milliseconds, 1e-6) / 1e6;
    };
    const double reached = rate(static_cast<double>(bytes), timing.median);
    const double limit = on_gpu(graph.device)
            ? copy_gb_per_s
            : rate(static_cast<double>(bytes), timing.stream_median);
    json ops = json::array();
    for (const size_t index : step.ops)
        ops.push_back(to_string(graph.file.ops[index].get_kind()));
    json result {{"graph", graph.file.file},
            {"partition", step.partition.get_id()}, {"ops", ops},
            {"engine", graph.device_name()}, {"kernel", step.kernels()},
            {"backend", step.backends()}, {"time_ms", timing.median},
            {"time_ms_min", timing.least}, {"time_ms_max", timing.most},
            {"repeats", timing.repeats}, {"bytes", bytes},
            {"gb_per_s", reached}, {"limit_gb_per_s", limit},
            {"limit_share", limit > 0 ? reached / limit : 0.0},
            {"flops", flops}, {"tflop_per_s", rate(flops, timing.median) / 1e3},
            {"compile_ms", step.compile_ms}};
    if (on_gpu(graph.device)) {
        result["time_ms_warm"] = timing.warm_median;
        result["host_ms"] = timing.host_median;
    }
    const bool latency = timing.latency_us > 0;
    if (latency) result["latency_us"] = timing.latency_us;
    if (latency && on_gpu(graph.device)) {
        result["replay_us"] = timing.replay_us;
        result["launches"] = timing.launches;
    }
    return result;
}

void write_table(const json &results, std::ostream &out) {
    const bool gpu = results.front().contains("time_ms_warm");
    std::vector<std::string> titles {"graph", "ops", "kernel", "backend",
            "time ms", "min", "max", "runs", "GB/s", "limit", "share",
            "TFLOP/s"};
    if (gpu) titles.insert(titles.end(), {"warm ms", "host ms"});
    const bool latency = results.front().contains("latency_us");
    if (latency) titles.emplace_back("latency us");
    if (latency && gpu) titles.insert(titles.end(), {"replay us", "launches"});
    table rows(titles);
    for (const json &each : results) {
        std::string ops;
        for (const json &kind : each["ops"])
            ops += (ops.empty() ? "" : "+") + kind.get<std::string>();
        const auto number = [&](const char *pattern, const char *key) {
            return format(pattern, each[key].get<double>());
        };
        const auto graph = each["graph"].get<std::string>();
        std::vector<std::string> cells {graph.substr(graph.rfind('/') + 1), ops,
                each["kernel"].get<std::string>(),
                without_parentheses(each["backend"].get<std::string>()),
                number("%.3f", "time_ms"), number("%.3f", "time_ms_min"),
                number("%.3f", "time_ms_max"),
                text(each["repeats"].get<size_t>()), number("%.1f", "gb_per_s"),
                number("%.1f", "limit_gb_per_s"),
                format("%.0f%%", 100 * each["limit_share"].get<double>()),
                each["flops"].get<double>() > 0 ? number("%.3f", "tflop_per_s")
                                                : "-"};
        if (gpu)
            cells.insert(cells.end(),
                    {number("%.3f", "time_ms_warm"),
                            number("%.4f", "host_ms")});
        if (latency) cells.push_back(number("%.1f", "latency_us"));
        if (latency && gpu)
            cells.insert(cells.end(),
                    {number("%.1f", "replay_us"),
                            text(each["launches"].get<size_t>())});
        rows.add(cells);
    }
    rows.write(out);
}

int bench(const bench_options &options) {
    if (options.graphs.empty()) throw usage_error("GRAPH.json is missing");
    // All that may be wrong with the input is found at once: whether the
    // report can be written, and the graphs.
    if (!options.json_file.empty())
        detail::atomic_file probe(options.json_file);
    // So that every compile time is that of compiling.
    set_compiled_partition_cache_capacity(0);
    std::vector<loaded_graph> graphs;
    for (const std::string &name : options.graphs)
        graphs.push_back(load_graph(name, options.engine));
    for (const loaded_graph &graph : graphs)
        if (graph.device_name() != graphs.front().device_name())
            throw detail::input_error(graph.file.file, "engine_kind",
                    text("runs on ", graph.device_name(),
                            ", the first graph on ",
                            graphs.front().device_name(),
                            "; bench measures one engine at a time"));

    json report;
    std::set<std::string> kernels; // of the partitions so far
    {
        progress line;
        line.show("gradnn bench: measuring the copy rate");
        report["machine"] = machine_json();
        const double copy = copy_gb_per_s(graphs.front().device);
        report["copy_gb_per_s"] = copy;
        if (on_gpu(graphs.front().device))
            report["empty_launch"] = launch_json(graphs.front().device);
        report["results"] = json::array();
        for (const loaded_graph &graph : graphs)
            for (const graph_step &step : graph.steps) {
                const auto show = [&](const std::string &what) {
                    line.show(text("gradnn bench: ", graph.file.file,
                            ": partition ", &step - graph.steps.data() + 1,
                            " of ", graph.steps.size(), ", ", what));
                };
                json result = result_of(graph, step,
                        time_step(graph, step, options.seconds, options.latency,
                                show),
                        copy);
                // Compiling a kernel for the first time loads libraries too.
                bool first = false;
                for (const step_info &info : step.compiled.get_info().steps)
                    first |= kernels.insert(info.kernel).second;
                result["compile_first"] = first;
                report["results"].push_back(std::move(result));
            }
    }
    write_table(report["results"], std::cout);
    const bool gpu = on_gpu(graphs.front().device);
    std::cout << "caches cold; time: median; GB/s: inputs read and outputs, "
                 "each once; limit: "
              << (gpu ? "a large copy\nwithin the GPU's memory"
                      : "a plain stream of\nall threads over the same bytes, "
                        "timed in turns with the partition; streaming copy")
              << ": " << format("%.1f", report["copy_gb_per_s"].get<double>())
              << " GB/s";
    if (gpu)
        std::cout << "; warm: the same tensors\nevery time; host: one call of "
                     "execute; an empty kernel: "
                  << report["empty_launch"]["device_ms"].get<double>()
                  << " ms, of the host "
                  << report["empty_launch"]["host_ms"].get<double>() << " ms";
    if (options.latency)
        std::cout << ";\nlatency: of the host, from one call of execute until "
                     "its work is done, tensors warm"
                  << (gpu ? "; replay: the\nsame of a CUDA graph; launches: "
                            "its nodes"
                          : "");
    std::cout << '\n';
    if (!options.json_file.empty()) {
        detail::atomic_file file(options.json_file);
        file.write(report.dump(2) + "\n");
        file.commit();
    }
    return 0;
}

} // namespace

action add_bench(CLI::App &program) {
    auto options = std::make_shared<bench_options>();
    CLI::App *command = program.add_subcommand(
            "bench", "Time graphs, caches cold, beside the memory limit");
    command->add_option("GRAPH.json", options->graphs,
                   "graphs in oneDNN Graph's JSON format")
            ->option_text("...");
    add_engine_options(*command, options->engine);
    command->add_option("--json", options->json_file, "write the figures")
            ->type_name("FILE");
    command->add_option("--seconds", options->seconds,
                   "about how long each partition is timed (default: 1)")
            ->type_name("S")
            ->check(CLI::Range(0.0, 3600.0));
    command->add_flag("--latency", options->latency,
            "time one call at a time too, until its work is done; on a GPU "
            "also by replay of a CUDA graph");
    return [options] { return bench(*options); };
}

} // namespace gradnn::driver
