// A step of a partition by each row of the kernel list that can compute it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "loaded_graph.hpp"

namespace gradnn::driver {

/// A row that can compute a step.
struct forced_row {
    std::string kernel;
    std::string backend;
    std::string yields; ///< why other rows come first; empty where none does
    size_t workspace_bytes = 0;
    /// Takes the partition's inputs and outputs, and computes this step alone.
    compiled_partition compiled;
};

/// Of each step of a partition of one op, in the order of kernel_steps, all rows
/// that can compute it, in the list's order. The row that is taken is among them.
std::vector<std::vector<forced_row>> forced_rows(
        const loaded_graph &graph, const graph_step &step);

} // namespace gradnn::driver
