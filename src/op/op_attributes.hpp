// Attributes of an op against its schema's rows, and their typed form.
#pragma once

#include <memory>
#include <string>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// The op's attributes by type, defaults filled in. Throws invalid_graph_op
/// naming op and attribute where one is none of the schema's, is missing, has a
/// wrong type, or a value that is wrong whatever the shapes.
std::shared_ptr<const op_description> described(
        const op &the_op, const op_schema &schema);

/// A string attribute of a description's identity, for messages.
const std::string &word_of(const op &identity, op::attr name);

} // namespace gradnn::detail
