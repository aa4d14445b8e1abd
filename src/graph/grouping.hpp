// Which ops of a graph make a partition.
#pragma once

#include <vector>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// The ops of each partition under policy::fusion: indices in `ops`, which are
/// in execution order, ascending; the partitions in an order in which they can be
/// executed. An op that belongs to no pattern is alone.
std::vector<std::vector<size_t>> grouped(const std::vector<checked_op> &ops);

} // namespace gradnn::detail
