// Times one partition, and its steps, beside what limits them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "compute_limit.hpp"
#include "loaded_graph.hpp"

namespace gradnn::driver {

/// Of repeated executions of the same work, in milliseconds.
struct work_times {
    double median = 0;
    double least = 0;
    double most = 0;
    double lower_quartile = 0;
    double upper_quartile = 0;
    size_t repeats = 0;
    /// On the CPU: the median of a plain stream of all threads over the same
    /// numbers of bytes (memory_limit.hpp), alternately with the executions;
    /// 0 on a GPU.
    double stream_median = 0;
    /// The compute limit: on the CPU the median of what was measured
    /// alternately with the executions. 0 where none was asked for.
    double limit_tflop_per_s = 0;
};

/// Of a row of the kernel list that can compute a step. A row that took very
/// much longer than the one that is taken has a time of one execution.
struct row_times {
    std::string kernel;
    std::string backend;
    std::string yields; ///< why other rows come first; empty where none does
    size_t workspace_bytes = 0;
    work_times times;
    std::string failure; ///< why there are no times; empty where there are
};

/// What a partition's times are.
struct step_timing {
    work_times whole;
    /// Of each of kernel_steps, executed by itself.
    std::vector<work_times> steps;
    /// Where asked for: of each of kernel_steps, all rows that can compute it.
    std::vector<std::vector<row_times>> rows;
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

struct timing_options {
    double seconds = 1; ///< about how long the partition is timed
    bool latency = false; ///< also the latencies
    bool every_kernel = false; ///< also all rows that can compute a step
    /// Where the partition multiplies: what it is compared with.
    const compute_limit *compute = nullptr;
    /// Told from time to time how far it is.
    std::function<void(const std::string &)> report;
};

/// Executes a partition again and again, then, where it has several, each of
/// its steps by itself for an equal part of the time. Every execution takes
/// another copy of all tensors, and the copies together exceed the device's
/// largest cache, so caches are cold. On a GPU short executions are timed
/// several at a time, one right after the other as a training step has them.
/// Each row of the kernel list is timed for as long as a step.
step_timing time_step(const loaded_graph &graph, const graph_step &step,
        const timing_options &options);

} // namespace gradnn::driver
