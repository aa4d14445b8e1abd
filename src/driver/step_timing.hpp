// Times one partition beside the memory limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "loaded_graph.hpp"

namespace gradnn::driver {

/// What a step must move in bytes: the data that it reads, and its outputs,
/// each once. Inputs whose shape alone counts are left out.
struct step_traffic {
    int64_t read = 0;
    int64_t written = 0;
};
step_traffic traffic_of(const loaded_graph &graph, const graph_step &step);

/// Multiplications and additions of the convolutions of a step; taps in the
/// padding count, as is usual.
double flops_of(const loaded_graph &graph, const graph_step &step);

/// Milliseconds.
struct step_timing {
    double median = 0;
    double least = 0;
    double most = 0;
    size_t repeats = 0;
    /// On the CPU: of a plain stream of all threads over the same numbers of
    /// bytes (memory_limit.hpp), in turns with the executions; 0 on a GPU.
    double stream_median = 0;
    /// On a GPU: of executions that all take the same tensors, so that the L2
    /// cache holds what fits; 0 on the CPU.
    double warm_median = 0;
    /// On a GPU: of the host in one call of execute; 0 on the CPU.
    double host_median = 0;
    /// Where asked for, in microseconds by the host's clock: from one call of
    /// execute until its work is done, the tensors being the same every time.
    double latency_us = 0;
    /// On a GPU: the same of a CUDA graph that one execution was recorded in,
    /// and the number of its nodes (kernels, copies, fills).
    double replay_us = 0;
    size_t launches = 0;
};

/// Executes a step again and again for about `seconds`. Every execution takes
/// another copy of all tensors, and the copies together exceed the device's
/// largest cache, so caches are cold. On a GPU short executions are timed
/// several at a time, one right after the other as a training step has them.
/// `latency` asks for the latencies too. `report` is told from time to time how
/// far it is.
step_timing time_step(const loaded_graph &graph, const graph_step &step,
        double seconds, bool latency,
        const std::function<void(const std::string &)> &report);

} // namespace gradnn::driver
