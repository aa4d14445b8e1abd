// The steps of a compiled partition: which kernel computes which output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loaded_graph.hpp"

namespace gradnn::driver {

/// What must be moved at least, in bytes: the data that is read, and the
/// outputs, each once. Inputs whose shape alone counts are left out.
struct step_traffic {
    int64_t read = 0;
    int64_t written = 0;
    int64_t all() const { return read + written; }
};

/// One kernel's part of a partition.
struct kernel_step {
    std::string output_name; ///< the port's: "diff_weights"
    size_t output = 0; ///< tensor id
    size_t op = 0; ///< index in the file's "graph"
    std::string kernel;
    std::string backend;
    size_t workspace_bytes = 0;
    step_traffic traffic;
    /// Multiplications and additions of a convolution, else 0; taps in the
    /// padding count, as is usual.
    double flops = 0;
    /// Type of the factors that are multiplied.
    logical_tensor::data_type type = logical_tensor::data_type::undef;
};

/// In the order in which they run; get_info().steps has the same.
std::vector<kernel_step> kernel_steps(const graph_step &step);

/// Of a partition: tensors that several steps read count once.
step_traffic traffic_of(const loaded_graph &graph, const graph_step &step);

} // namespace gradnn::driver
