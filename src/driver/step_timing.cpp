#include "step_timing.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "device_clock.hpp"
#include "input_error.hpp"
#include "memory_limit.hpp"
#include "op_check.hpp"
#include "op_schema.hpp"
#include "problem.hpp"
#include "shapes.hpp"
#include "tensor_data.hpp"
#include "tensor_memory.hpp"
#include "text.hpp"

namespace gradnn::driver {

using detail::port_role;
using detail::text;

namespace {

using clock = std::chrono::steady_clock;

int64_t dense_bytes(const logical_tensor &lt) {
    return detail::element_count(lt) * detail::size_of(lt.get_data_type());
}

/// Rotates over copies of a step's tensors.
class rotating_tensors {
public:
    rotating_tensors(
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

    static size_t slot_bytes(const logical_tensor &lt) {
        return (lt.get_mem_size() / 64 + 1) * 64;
    }

    void choose(size_t copy) {
        point(inputs, inputs_, copy);
        point(outputs, outputs_, copy);
    }

    std::vector<tensor> inputs;
    std::vector<tensor> outputs;

private:
    struct slots {
        tensor first;
        std::unique_ptr<tensor_memory> memory; ///< null where no op reads it
        size_t bytes;
    };

    static void add(std::vector<slots> &to, const loaded_graph &graph,
            size_t id, size_t copies) {
        const graph_tensor &from = graph.tensors.at(id);
        slots made {tensor(from.lt, graph.device, nullptr), nullptr,
                slot_bytes(from.lt)};
        if (from.computed || from.read || !from.shape_values.empty()) {
            made.memory = std::make_unique<tensor_memory>(
                    graph.memory_engine(from), made.bytes * copies);
            made.memory->poison();
            for (size_t copy = 0; copy < copies; ++copy)
                made.memory->edit(copy * made.bytes, made.bytes,
                        [&](std::byte *data) { fill(from, data, copy); });
        }
        to.push_back(std::move(made));
    }

    static void fill(const graph_tensor &from, void *data, size_t seed) {
        if (from.shape_values.empty()) {
            if (from.consumed) fill_randomly(from.lt, data, seed);
            return;
        }
        const std::vector<double> values(
                from.shape_values.begin(), from.shape_values.end());
        detail::store(from.lt, values, data);
    }

    static void point(std::vector<tensor> &tensors,
            const std::vector<slots> &memory, size_t copy) {
        for (size_t index = 0; index < tensors.size(); ++index)
            if (memory[index].memory)
                tensors[index].set_data_handle(memory[index].memory->data()
                        + copy * memory[index].bytes);
    }

    std::vector<slots> inputs_;
    std::vector<slots> outputs_;
};

/// As many copies as twice the largest cache holds, but at least two (an
/// execution must not find what the one before it left), as memory allows.
size_t copies_of(const loaded_graph &graph, const graph_step &step,
        const step_traffic &traffic) {
    size_t bytes = on_gpu(graph.device)
            ? 0
            : memory_stream::memory_need(static_cast<size_t>(traffic.read),
                    static_cast<size_t>(traffic.written), 1);
    for (const auto *ids : {&step.inputs, &step.outputs})
        for (const size_t id : *ids)
            bytes += rotating_tensors::slot_bytes(graph.tensors.at(id).lt);
    const size_t workspace = step.compiled.get_workspace_size();
    want_memory(graph, static_cast<int64_t>(bytes + workspace));
    const auto available
            = static_cast<size_t>(available_memory(graph.device)) - workspace;
    const size_t wanted
            = 4 * static_cast<size_t>(cache_bytes(graph.device)) / bytes + 2;
    constexpr size_t most = 1 << 16;
    return std::clamp<size_t>(std::min(wanted, available / 2 / bytes), 1, most);
}

/// Fills in the latencies, each measured for about `seconds`.
void time_latency(step_timing &result, stream &queue, double seconds,
        const std::function<void()> &execute) {
    const auto latency_us = [&](const std::function<void()> &submit) {
        std::vector<double> times;
        const auto start = clock::now();
        while (times.size() < 3
                || (times.size() < 1000
                        && milliseconds_since(start) < 1e3 * seconds)) {
            const auto begin = clock::now();
            submit();
            queue.wait();
            times.push_back(1e3 * milliseconds_since(begin));
        }
        return median(times);
    };
    result.latency_us = latency_us(execute);
    if (!on_gpu(queue.get_engine())) return;
    const gpu::recorded_work recorded(queue, execute);
    result.launches = recorded.launches();
    result.replay_us = latency_us([&] { recorded.submit(); });
}

} // namespace

step_traffic traffic_of(const loaded_graph &graph, const graph_step &step) {
    step_traffic result;
    for (const size_t id : step.inputs)
        if (graph.tensors.at(id).read)
            result.read += dense_bytes(graph.tensors.at(id).lt);
    for (const size_t id : step.outputs)
        result.written += dense_bytes(graph.tensors.at(id).lt);
    return result;
}

double flops_of(const loaded_graph &graph, const graph_step &step) {
    double flops = 0;
    for (const size_t index : step.ops) {
        const op the_op = detail::checked(graph.known_op(index));
        const detail::op_schema &schema
                = *detail::find_schema(the_op.get_kind());
        if (schema.family != detail::op_family::convolution
                && schema.family != detail::op_family::transposed)
            continue;
        // Each is an input, or what is computed.
        const auto find = [&](port_role role) {
            const int input = detail::port_index(schema.inputs, role);
            const int output = detail::port_index(schema.outputs, role);
            return input >= 0
                    ? the_op.get_inputs()[static_cast<size_t>(input)]
                    : the_op.get_outputs()[static_cast<size_t>(output)];
        };
        const logical_tensor small = find(port_role::small);
        const logical_tensor weights = find(port_role::weights);
        const auto dims = small.get_dims();
        const int axis
                = detail::channel_axis(the_op, static_cast<int>(dims.size()));
        const int64_t channels
                = std::max<int64_t>(1, dims[static_cast<size_t>(axis)]);
        int gradients = 0;
        for (size_t port = 0; port < the_op.get_outputs().size(); ++port)
            if (!the_op.get_outputs()[port].is_absent()
                    && schema.outputs[port].role != port_role::bias)
                ++gradients;
        flops += 2.0 * gradients
                * static_cast<double>(detail::element_count(small))
                * static_cast<double>(
                        detail::element_count(weights) / channels);
    }
    return flops;
}

step_timing time_step(const loaded_graph &graph, const graph_step &step,
        double seconds, bool latency,
        const std::function<void(const std::string &)> &report) {
    const step_traffic traffic = traffic_of(graph, step);
    report("preparing");
    const size_t copies = copies_of(graph, step, traffic);
    rotating_tensors tensors(graph, step, copies);
    std::optional<memory_stream> plain_stream;
    if (!on_gpu(graph.device))
        plain_stream.emplace(static_cast<size_t>(traffic.read),
                static_cast<size_t>(traffic.written), copies);
    stream queue(graph.device);
    device_clock stopwatch(queue);
    const auto at_step = [&](const auto &body) {
        try {
            body();
        } catch (const error &failure) {
            throw detail::input_error(graph.file.file,
                    text("graph[", step.ops.front(), "]"), failure.what());
        }
    };
    const auto execute = [&] {
        at_step([&] {
            step.compiled.execute(queue, tensors.inputs, tensors.outputs);
        });
    };
    size_t copy = 0;
    const auto time_cold = [&](size_t turns) {
        return stopwatch.milliseconds_of(turns, [&](size_t) {
            tensors.choose(copy++ % copies);
            execute();
        });
    };
    const auto time_stream = [&] {
        return plain_stream ? 1e3 * plain_stream->run(copy % copies) : 0;
    };

    report("warming up");
    double estimate = time_cold(1);
    const auto begin = clock::now();
    for (size_t turn = 1; turn < 4 || milliseconds_since(begin) < 50; ++turn) {
        estimate = std::min(estimate, time_cold(1));
        time_stream();
        if (milliseconds_since(begin) > 1e3 * seconds) break;
    }

    // Short work of a GPU: as much at a time as drowns the clock's own latency.
    const auto at_once = on_gpu(graph.device)
            ? static_cast<size_t>(
                      std::clamp(0.5 / std::max(estimate, 1e-3), 1.0, 16.0))
            : size_t {1};
    const double wanted = 1e3 * seconds
            / std::max(estimate * static_cast<double>(at_once), 1e-3);
    const auto repeats = static_cast<size_t>(std::clamp(wanted, 3.0, 5000.0));
    std::vector<double> times;
    std::vector<double> stream_times;
    const auto start = clock::now();
    for (size_t turn = 0; turn < repeats; ++turn) {
        report(text("run ", turn + 1, " of ", repeats));
        times.push_back(time_cold(at_once));
        stream_times.push_back(time_stream());
        // Turns that became slower must not hold up for ever.
        if (turn >= 2 && milliseconds_since(start) > 3e3 * seconds) break;
    }
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    step_timing result {
            median(times), *least, *most, times.size(), median(stream_times)};
    if (latency) {
        report("latency");
        at_step([&] { time_latency(result, queue, seconds, execute); });
    }
    if (!on_gpu(graph.device)) return result;

    report("caches warm");
    std::vector<double> warm_times;
    std::vector<double> host_times;
    const auto warm_start = clock::now();
    for (size_t turn = 0; turn < std::clamp<size_t>(times.size(), 20, 200);
            ++turn) {
        warm_times.push_back(stopwatch.milliseconds_of(
                at_once, [&](size_t) { execute(); }));
        const auto called = clock::now();
        execute();
        host_times.push_back(milliseconds_since(called));
        queue.wait();
        if (turn >= 2 && milliseconds_since(warm_start) > 3e3 * seconds) break;
    }
    result.warm_median = median(warm_times);
    result.host_median = median(host_times);
    return result;
}

} // namespace gradnn::driver
