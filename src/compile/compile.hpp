// From a partition to a compiled one: shapes, lowering, kernel choice.
#pragma once

#include <memory>
#include <vector>

#include <gradnn/graph.hpp>

#include "compile/partition.hpp"

namespace gradnn::detail {

struct compiled_impl;

/// Tensors that one of these ops makes and another reads: a partition's own, since
/// no op of another partition reads them (graph/grouping.hpp). Of their two
/// descriptions the one that says more.
std::vector<logical_tensor> inner_tensors(const std::vector<checked_op> &ops);

/// Tensors that come from outside the ops, and that the ops make for outside; each
/// once.
std::vector<logical_tensor> input_ports(const std::vector<checked_op> &ops);
std::vector<logical_tensor> output_ports(const std::vector<checked_op> &ops);

/// As partition::compile documents.
std::shared_ptr<const compiled_impl> compile(const partition_impl &partition,
        const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs, const engine &e);

} // namespace gradnn::detail
