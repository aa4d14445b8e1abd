#include "bench_table.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "machine.hpp"
#include "table.hpp"

namespace gradnn::driver {

using detail::text;
using json = nlohmann::ordered_json;

namespace {

std::string time_of(const json &from, const char *key, double milliseconds) {
    return time_text(milliseconds * from[key].get<double>());
}

std::string bytes_of(const json &from, const char *key) {
    const auto bytes = from[key].get<int64_t>();
    return bytes == 0 ? "-" : bytes_text(bytes);
}

std::string number_of(const json &from, const char *pattern, const char *key) {
    return from.contains(key) ? format(pattern, from[key].get<double>()) : "-";
}

/// "43% compute": the larger share.
std::string share_of(const json &from) {
    const auto bound = from["bound"].get<std::string>();
    const double share
            = from[bound == "compute" ? "compute_share" : "limit_share"]
                      .get<double>();
    return format(share < 0.0995 ? "%.1f%% " : "%.0f%% ", 100 * share) + bound;
}

/// Where there is more than one.
std::string slices_of(const json &of) {
    return of.contains("slices")
            ? text(" in ", of["slices"].get<size_t>(), " slices")
            : "";
}

/// The cells that partitions and steps have alike.
std::vector<std::string> figures_of(const json &from) {
    const bool computes = from["flops"].get<double>() > 0;
    return {time_of(from, "time_ms", 1), time_of(from, "time_ms_min", 1),
            time_of(from, "time_ms_max", 1),
            text(from["repeats"].get<size_t>()),
            number_of(from, "%.1f", "gb_per_s"),
            number_of(from, "%.1f", "limit_gb_per_s"),
            computes ? number_of(from, "%.3f", "tflop_per_s") : "-",
            number_of(from, "%.3f", "limit_tflop_per_s"), share_of(from),
            bytes_of(from, "workspace_bytes")};
}

/// How the compute limits were measured, each once.
std::string compute_limits(const json &results) {
    std::set<std::string> seen;
    std::string names;
    for (const json &each : results) {
        if (!each.contains("compute_limit")) continue;
        const auto name = each["compute_limit"].get<std::string>();
        if (seen.insert(name).second)
            names += (names.empty() ? "" : "; ") + name;
    }
    return names;
}

void write_legend(const json &report, std::ostream &out) {
    const json &results = report["results"];
    const bool gpu = report.contains("empty_launch");
    out << "caches cold; time: median, of each step by itself; GB/s: inputs "
           "read and outputs,\neach once; of: the limit: "
        << (gpu ? "a large copy within the GPU's memory"
                : "a plain stream of all threads over the same bytes,\n"
                  "timed alternately with the work; streaming copy")
        << ": " << format("%.1f", report["copy_gb_per_s"].get<double>())
        << " GB/s";
    const std::string limits = compute_limits(results);
    if (!limits.empty())
        out << ";\nTFLOP/s: multiplications and additions; of: the limit: "
            << limits;
    out << ";\nshare: of that limit which is nearer; workspace: scratch memory";
    if (gpu)
        out << "; warm: the same tensors\nevery time; host: one call of "
               "execute; an empty kernel: "
            << time_of(report["empty_launch"], "device_ms", 1)
            << ", of the host "
            << time_of(report["empty_launch"], "host_ms", 1);
    if (results.front().contains("latency_us"))
        out << ";\nlatency: of the host, from one call of execute until "
               "its work is done, tensors warm"
            << (gpu ? "; replay: the\nsame of a CUDA graph; launches: "
                      "its nodes"
                    : "");
    out << '\n';
}

/// The rows of the kernel list that can compute each step, where they were timed.
void write_row_table(const json &results, std::ostream &out) {
    table rows({"graph", "output", "kernel", "", "time", "ratio", ""});
    bool any = false;
    for (const json &each : results)
        for (const json &step : each["steps"]) {
            if (!step.contains("rows")) continue;
            any = true;
            const double time = step["time_ms"].get<double>();
            for (const json &row : step["rows"]) {
                const bool timed = row.contains("time_ms");
                const double its = timed ? row["time_ms"].get<double>() : 0;
                const bool taken = row["taken"].get<bool>();
                const bool yields = !row["yields"].get<std::string>().empty();
                rows.add({short_graph_name(each),
                        step["output"].get<std::string>(),
                        row["kernel"].get<std::string>(),
                        taken            ? "taken"
                                : yields ? "yields"
                                         : "",
                        timed ? time_text(its) : "-",
                        timed && time > 0 ? format("%.2f", its / time) : "-",
                        timed ? "" : row["failed"].get<std::string>()});
            }
        }
    if (!any) return;
    out << "\nevery kernel that can compute a step; ratio: to the step's "
           "time\n";
    rows.write(out);
}

} // namespace

std::string short_graph_name(const json &result) {
    const auto graph = result["graph"].get<std::string>();
    return graph.substr(graph.rfind('/') + 1);
}

std::string joined_ops(const json &result) {
    std::string ops;
    for (const json &kind : result["ops"])
        ops += (ops.empty() ? "" : "+") + kind.get<std::string>();
    return ops;
}

void write_bench_table(const json &report, std::ostream &out) {
    const json &results = report["results"];
    const bool gpu = report.contains("empty_launch");
    const bool latency = results.front().contains("latency_us");
    std::vector<std::string> titles {"graph", "ops", "kernel", "backend",
            "time", "min", "max", "runs", "GB/s", "of", "TFLOP/s", "of",
            "share", "workspace", "tensors"};
    if (gpu) titles.insert(titles.end(), {"warm", "host"});
    if (latency) titles.emplace_back("latency");
    if (latency && gpu) titles.insert(titles.end(), {"replay", "launches"});
    table rows(titles);
    const auto add = [&](const std::string &graph, const std::string &what,
                             const std::string &kernel,
                             const std::string &backend, const json &from) {
        std::vector<std::string> cells {
                graph, what, kernel, without_parentheses(backend)};
        for (std::string &cell : figures_of(from))
            cells.push_back(std::move(cell));
        return cells;
    };
    constexpr double us = 1e-3; // in ms
    for (const json &each : results) {
        const json &steps = each["steps"];
        const bool several = steps.size() > 1;
        auto cells = add(short_graph_name(each), joined_ops(each),
                several ? text(steps.size(), " steps", slices_of(each))
                        : each["kernel"].get<std::string>(),
                several ? "" : each["backend"].get<std::string>(), each);
        cells.push_back(bytes_of(each, "tensor_bytes"));
        if (gpu) {
            cells.push_back(time_of(each, "time_ms_warm", 1));
            cells.push_back(time_of(each, "host_ms", 1));
        }
        if (latency) cells.push_back(time_of(each, "latency_us", us));
        if (latency && gpu) {
            cells.push_back(time_of(each, "replay_us", us));
            cells.push_back(text(each["launches"].get<size_t>()));
        }
        rows.add(cells);
        for (const json &step : steps) {
            if (!several) break;
            cells = add("", "  " + step["output"].get<std::string>(),
                    step["kernel"].get<std::string>(),
                    step["backend"].get<std::string>(), step);
            cells.resize(titles.size());
            rows.add(cells);
        }
    }
    rows.write(out);
    for (const json &each : report["memory"]) {
        const auto is_its = [&](const json &result) {
            return result["graph"] == each["graph"];
        };
        if (std::count_if(results.begin(), results.end(), is_its) < 2) continue;
        out << "memory of " << short_graph_name(each) << ": tensors "
            << bytes_of(each, "tensor_bytes")
            << ", largest workspace of a partition "
            << bytes_of(each, "workspace_bytes") << '\n';
    }
    write_legend(report, out);
    write_row_table(results, out);
}

} // namespace gradnn::driver
