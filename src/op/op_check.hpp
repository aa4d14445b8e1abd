// Checks of an op against its schema.
#pragma once

#include <vector>

#include <gradnn/op.hpp>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// Throws invalid_graph_op, invalid_data_type or invalid_shape naming op, port
/// or attribute where the op is wrong in itself, whatever the shapes that are
/// not known yet. An op that gradnn cannot compute is returned unchecked.
checked_op checked(const op &the_op);

/// The same with other ports than those of `the_op`.
checked_op checked(const op &the_op, std::vector<logical_tensor> inputs,
        std::vector<logical_tensor> outputs);

/// Types, ranks and layouts of the ports, as far as they are known, and the
/// lengths of list attributes; not the shape rules.
void check_ports(const checked_op &the_op);

/// Dims and layout of one output.
void check_output(const checked_op &the_op, size_t index);

} // namespace gradnn::detail
