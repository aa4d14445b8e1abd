// Executing a part of a compiled partition, for measurements.
#pragma once

#include <cstddef>
#include <vector>

#include <gradnn/graph.hpp>

namespace gradnn::detail {

/// compiled_partition::execute, of one of its steps alone: get_info().steps
/// names them in their order. The step may read what earlier steps left in the
/// stream's workspace, so its output is right only where all steps before it
/// were executed on this stream, with the same tensors and nothing between.
void execute_step(const compiled_partition &compiled, size_t step,
        stream &astream, const std::vector<tensor> &inputs,
        const std::vector<tensor> &outputs);

} // namespace gradnn::detail
