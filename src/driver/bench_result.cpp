#include "bench_result.hpp"

#include <algorithm>

#include "device_clock.hpp"
#include "kernel_steps.hpp"

namespace gradnn::driver {

using json = nlohmann::ordered_json;

namespace {

/// Billions of something a second.
double rate(double amount, double milliseconds) {
    return amount / std::max(milliseconds, 1e-6) / 1e6;
}

double share(double reached, double limit) {
    return limit > 0 ? reached / limit : 0.0;
}

void add_times(json &to, const work_times &times) {
    to["time_ms"] = times.median;
    to["time_ms_min"] = times.least;
    to["time_ms_max"] = times.most;
    to["time_ms_quartiles"] = {times.lower_quartile, times.upper_quartile};
    to["repeats"] = times.repeats;
}

/// What is said of a partition and of each of its steps alike. A memory limit
/// of 0 is that of the stream that was timed.
void add_figures(json &to, const work_times &times, int64_t bytes, double flops,
        double memory_limit, const compute_limit *compute) {
    add_times(to, times);
    to["bytes"] = bytes;
    const double moved = rate(static_cast<double>(bytes), times.median);
    const double limit = memory_limit > 0
            ? memory_limit
            : rate(static_cast<double>(bytes), times.stream_median);
    const double memory_share = share(moved, limit);
    to["gb_per_s"] = moved;
    to["limit_gb_per_s"] = limit;
    to["limit_share"] = memory_share;
    const double computed = rate(flops, times.median) / 1e3;
    const double compute_share = share(computed, times.limit_tflop_per_s);
    to["flops"] = flops;
    to["tflop_per_s"] = computed;
    if (compute != nullptr && times.limit_tflop_per_s > 0) {
        to["limit_tflop_per_s"] = times.limit_tflop_per_s;
        to["compute_share"] = compute_share;
        to["compute_limit"] = compute->name();
    }
    to["bound"] = compute_share > memory_share ? "compute" : "memory";
}

json rows_result(const std::vector<row_times> &rows, const std::string &taken) {
    json result = json::array();
    for (const row_times &row : rows) {
        json each {{"kernel", row.kernel}, {"taken", row.kernel == taken},
                {"backend", row.backend}, {"yields", row.yields},
                {"workspace_bytes", row.workspace_bytes}};
        if (row.failure.empty())
            add_times(each, row.times);
        else
            each["failed"] = row.failure;
        result.push_back(std::move(each));
    }
    return result;
}

int64_t tensor_bytes(const loaded_graph &graph, size_t id) {
    const graph_tensor &tensor = graph.tensors.at(id);
    const bool held = tensor.computed || tensor.read;
    return held ? static_cast<int64_t>(tensor.lt.get_mem_size()) : 0;
}

} // namespace

json bench_result(const loaded_graph &graph, const graph_step &step,
        const step_timing &timing, double copy_gb_per_s,
        const compute_limit *compute) {
    const std::vector<kernel_step> steps = kernel_steps(step);
    const double memory_limit = on_gpu(graph.device) ? copy_gb_per_s : 0;
    double flops = 0;
    json parts = json::array();
    for (size_t index = 0; index < steps.size(); ++index) {
        const kernel_step &each = steps[index];
        flops += each.flops;
        json part {{"output", each.output_name}, {"kernel", each.kernel},
                {"backend", each.backend}};
        add_figures(part, timing.steps[index], each.traffic.all(), each.flops,
                memory_limit, compute);
        part["workspace_bytes"] = each.workspace_bytes;
        if (!timing.rows.empty())
            part["rows"] = rows_result(timing.rows[index], each.kernel);
        parts.push_back(std::move(part));
    }
    json ops = json::array();
    for (const size_t index : step.ops)
        ops.push_back(to_string(graph.file.ops[index].get_kind()));
    json result {{"graph", graph.file.file},
            {"partition", step.partition.get_id()}, {"ops", ops},
            {"engine", graph.device_name()}, {"kernel", step.kernels()},
            {"backend", step.backends()}};
    add_figures(result, timing.whole, traffic_of(graph, step).all(), flops,
            memory_limit, compute);
    int64_t tensors = 0;
    for (const auto *ids : {&step.inputs, &step.outputs})
        for (const size_t id : *ids)
            tensors += tensor_bytes(graph, id);
    result["tensor_bytes"] = tensors;
    result["workspace_bytes"] = step.compiled.get_workspace_size();
    result["compile_ms"] = step.compile_ms;
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
    const size_t slices = step.compiled.get_info().slices;
    if (slices > 1) result["slices"] = slices;
    result["steps"] = std::move(parts);
    return result;
}

json memory_result(const loaded_graph &graph) {
    int64_t tensors = 0;
    for (const auto &[id, tensor] : graph.tensors)
        tensors += tensor_bytes(graph, id);
    size_t workspace = 0;
    for (const graph_step &step : graph.steps)
        workspace = std::max(workspace, step.compiled.get_workspace_size());
    return {{"graph", graph.file.file}, {"tensor_bytes", tensors},
            {"workspace_bytes", workspace}};
}

} // namespace gradnn::driver
