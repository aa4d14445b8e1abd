// What bench says of a partition, as JSON; doc/bench_json.md has every field.
#pragma once

#include <nlohmann/json.hpp>

#include "loaded_graph.hpp"
#include "step_timing.hpp"

namespace gradnn::driver {

/// An element of "results". `copy_gb_per_s` is the memory limit on a GPU;
/// `compute` may be null.
nlohmann::ordered_json bench_result(const loaded_graph &graph,
        const graph_step &step, const step_timing &timing, double copy_gb_per_s,
        const compute_limit *compute);

/// An element of "memory": what the graph needs at once.
nlohmann::ordered_json memory_result(const loaded_graph &graph);

} // namespace gradnn::driver
