// What is inside a partition, and what goes in and out.
#pragma once

#include <vector>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// The place of the tensor with the same id; their number where there is none.
size_t index_of(
        const logical_tensor &lt, const std::vector<logical_tensor> &tensors);

/// Tensors that one of these ops makes and another reads: a partition's own, since
/// no op of another partition reads them (graph/grouping.hpp). Of their two
/// descriptions the one that says more.
std::vector<logical_tensor> inner_tensors(const std::vector<checked_op> &ops);

/// Tensors that come from outside the ops, and that the ops make for outside; each
/// once.
std::vector<logical_tensor> input_ports(const std::vector<checked_op> &ops);
std::vector<logical_tensor> output_ports(const std::vector<checked_op> &ops);

} // namespace gradnn::detail
