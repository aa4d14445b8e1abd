// From a partition to a compiled one: shapes, lowering, kernel choice.
#pragma once

#include <memory>
#include <vector>

#include <gradnn/graph.hpp>

#include "compile/partition.hpp"

namespace gradnn::detail {

struct compiled_impl;

/// As partition::compile documents.
std::shared_ptr<const compiled_impl> compile(const partition_impl &partition,
        const std::vector<logical_tensor> &inputs,
        const std::vector<logical_tensor> &outputs, const engine &e);

} // namespace gradnn::detail
