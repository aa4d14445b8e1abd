#include "step_timing.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>

#include "base/input_error.hpp"
#include "base/text.hpp"
#include "device_clock.hpp"
#include "execute/execute.hpp"
#include "forced_rows.hpp"
#include "gpu/runtime/tools.hpp"
#include "kernel_steps.hpp"
#include "memory_limit.hpp"
#include "rotating_tensors.hpp"

namespace gradnn::driver {

using detail::text;

namespace {

using clock = std::chrono::steady_clock;

/// As many copies as twice the largest cache holds (or what each step moves of
/// them the cache itself), but at least two (an execution must not find what
/// the one before it left), as memory allows.
size_t copies_of(const loaded_graph &graph, const graph_step &step,
        const step_traffic &traffic, const std::vector<kernel_step> &steps) {
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
    const auto cache = static_cast<size_t>(cache_bytes(graph.device));
    size_t wanted = 4 * cache / bytes + 2;
    const size_t enough = 4 * wanted;
    for (const kernel_step &each : steps) {
        const auto moved
                = static_cast<size_t>(std::max<int64_t>(each.traffic.all(), 1));
        wanted = std::max(wanted, std::min(2 * cache / moved + 2, enough));
    }
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
    const auto recorded = gpu::tools.record(queue, execute);
    result.launches = recorded.launches;
    result.replay_us = latency_us(recorded.submit);
}

/// Times the executions of one partition.
class timer {
public:
    timer(const loaded_graph &graph, const graph_step &step,
            const timing_options &options)
        : graph_(graph),
          step_(step),
          options_(options),
          steps_(kernel_steps(step)),
          traffic_(traffic_of(graph, step)),
          copies_(copies_of(graph, step, traffic_, steps_)),
          tensors_(graph, step, copies_),
          queue_(graph.device),
          stopwatch_(queue_) {}

    step_timing run() {
        const auto execute = [&] {
            step_.compiled.execute(queue_, tensors_.inputs, tensors_.outputs);
        };
        step_timing result;
        result.whole = time("run", execute, traffic_,
                options_.compute != nullptr, options_.seconds);
        if (steps_.size() == 1) result.steps.push_back(result.whole);
        for (size_t index = 0; index < steps_.size() && steps_.size() > 1;
                ++index)
            result.steps.push_back(time_alone(index));
        if (options_.every_kernel) time_rows(result);
        if (options_.latency) {
            options_.report("latency");
            at_op([&] {
                time_latency(result, queue_, options_.seconds, execute);
            });
        }
        if (on_gpu(graph_.device)) time_warm(result, execute);
        return result;
    }

private:
    template <typename Body>
    void at_op(const Body &body) const {
        try {
            body();
        } catch (const error &failure) {
            throw detail::input_error(graph_.file.file,
                    text("graph[", step_.ops.front(), "]"), failure.what());
        }
    }

    work_times time_alone(size_t index) {
        const kernel_step &each = steps_[index];
        const auto execute = [&] {
            detail::execute_step(step_.compiled, index, queue_, tensors_.inputs,
                    tensors_.outputs);
        };
        return time(each.output_name + " run", execute, each.traffic,
                options_.compute != nullptr && each.flops > 0,
                options_.seconds / static_cast<double>(steps_.size()));
    }

    /// Of each of so many turns, with cold caches.
    double time_cold(size_t turns, const std::function<void()> &execute) {
        double milliseconds = 0;
        at_op([&] {
            milliseconds = stopwatch_.milliseconds_of(turns, [&](size_t) {
                tensors_.choose(copy_++ % copies_);
                execute();
            });
        });
        return milliseconds;
    }

    void time_rows(step_timing &result) {
        options_.report("making every kernel's plan");
        const auto lists = forced_rows(graph_, step_);
        for (size_t index = 0; index < lists.size(); ++index) {
            std::vector<row_times> rows;
            for (const forced_row &row : lists[index])
                rows.push_back(time_row(row, result.steps[index].median));
            result.rows.push_back(std::move(rows));
        }
    }

    row_times time_row(const forced_row &row, double taken_ms) {
        constexpr double many = 20;
        row_times result {row.kernel, row.backend, row.yields,
                row.workspace_bytes, {}, {}};
        try {
            result.times = summary(repeat(
                    row.kernel,
                    [&] {
                        row.compiled.execute(
                                queue_, tensors_.inputs, tensors_.outputs);
                    },
                    options_.seconds / static_cast<double>(steps_.size()),
                    [](bool) {}, many * taken_ms));
        } catch (const std::exception &failure) {
            result.failure = failure.what();
        }
        return result;
    }

    work_times time(const std::string &what,
            const std::function<void()> &execute, const step_traffic &traffic,
            bool computes, double seconds) {
        std::optional<memory_stream> plain_stream;
        if (!on_gpu(graph_.device))
            plain_stream.emplace(static_cast<size_t>(traffic.read),
                    static_cast<size_t>(traffic.written), copies_);
        std::vector<double> stream_times;
        std::vector<double> rates;
        double computed_ms = 0;
        const auto time_limits = [&](bool counts) {
            const double streamed = plain_stream
                    ? 1e3 * plain_stream->run(copy_ % copies_)
                    : 0;
            if (!counts) return;
            stream_times.push_back(streamed);
            // The limit's own time is a part of it all, however short the work.
            if (computes && !on_gpu(graph_.device)
                    && (rates.size() < 3 || computed_ms < 1e2 * seconds)) {
                const auto compute_begin = clock::now();
                rates.push_back(options_.compute->measure());
                computed_ms += milliseconds_since(compute_begin);
            }
        };
        work_times result
                = summary(repeat(what, execute, seconds, time_limits));
        result.stream_median = median(stream_times);
        if (computes)
            result.limit_tflop_per_s = rates.empty()
                    ? options_.compute->tflop_per_s()
                    : median(rates);
        return result;
    }

    /// Milliseconds of executions. `beside` is called between them and told
    /// whether they are timed yet. Work that takes longer than `too_long`
    /// milliseconds is given up after its second execution.
    std::vector<double> repeat(const std::string &what,
            const std::function<void()> &execute, double seconds,
            const std::function<void(bool)> &beside,
            double too_long = std::numeric_limits<double>::infinity()) {
        options_.report("warming up");
        double estimate = time_cold(1, execute);
        const auto begin = clock::now();
        for (size_t turn = 1; turn < 4 || milliseconds_since(begin) < 50;
                ++turn) {
            estimate = std::min(estimate, time_cold(1, execute));
            if (estimate > too_long) return {estimate};
            beside(false);
            if (milliseconds_since(begin) > 1e3 * seconds) break;
        }

        // Short work of a GPU: as much at a time as drowns the clock's own
        // latency.
        const size_t at_once = on_gpu(graph_.device)
                ? static_cast<size_t>(
                        std::clamp(0.5 / std::max(estimate, 1e-3), 1.0, 16.0))
                : size_t {1};
        const double wanted = 1e3 * seconds
                / std::max(estimate * static_cast<double>(at_once), 1e-3);
        const auto repeats
                = static_cast<size_t>(std::clamp(wanted, 3.0, 5000.0));
        std::vector<double> times;
        const auto start = clock::now();
        for (size_t turn = 0; turn < repeats; ++turn) {
            options_.report(text(what, " ", turn + 1, " of ", repeats));
            times.push_back(time_cold(at_once, execute));
            beside(true);
            // Turns that became slower must not hold up for ever.
            if (turn >= 2 && milliseconds_since(start) > 3e3 * seconds) break;
        }
        return times;
    }

    static work_times summary(std::vector<double> times) {
        std::sort(times.begin(), times.end());
        const auto at = [&](size_t quarters) {
            return times[std::min(
                    times.size() * quarters / 4, times.size() - 1)];
        };
        return {at(2), times.front(), times.back(), at(1), at(3), times.size()};
    }

    void time_warm(step_timing &result, const std::function<void()> &execute) {
        options_.report("caches warm");
        const size_t turns = std::clamp<size_t>(result.whole.repeats, 20, 200);
        const auto at_once = static_cast<size_t>(std::clamp(
                0.5 / std::max(result.whole.least, 1e-3), 1.0, 16.0));
        std::vector<double> warm_times;
        std::vector<double> host_times;
        const auto start = clock::now();
        for (size_t turn = 0; turn < turns; ++turn) {
            at_op([&] {
                warm_times.push_back(stopwatch_.milliseconds_of(
                        at_once, [&](size_t) { execute(); }));
                const auto called = clock::now();
                execute();
                host_times.push_back(milliseconds_since(called));
            });
            queue_.wait();
            if (turn >= 2 && milliseconds_since(start) > 3e3 * options_.seconds)
                break;
        }
        result.warm_median = median(warm_times);
        result.host_median = median(host_times);
    }

    const loaded_graph &graph_;
    const graph_step &step_;
    const timing_options &options_;
    const std::vector<kernel_step> steps_;
    const step_traffic traffic_;
    const size_t copies_;
    rotating_tensors tensors_;
    stream queue_;
    device_clock stopwatch_;
    size_t copy_ = 0;
};

} // namespace

step_timing time_step(const loaded_graph &graph, const graph_step &step,
        const timing_options &options) {
    options.report("preparing");
    return timer(graph, step, options).run();
}

} // namespace gradnn::driver
