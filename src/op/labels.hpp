// What messages call ops and ports, and the failures that name them.
#pragma once

#include <string>

#include <gradnn/op.hpp>
#include <gradnn/status.hpp>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// "InterpolateBackward 'up' (op 3)".
std::string op_label(const op &the_op);

/// "input 1 (diff_dst)".
std::string port_label(const op_schema &schema, port_reference port);
std::string port_label(const checked_op &the_op, port_reference port);

/// A failure of a kernel, with the op and the kernel named.
error named(const error &failure, const op &the_op, const char *kernel);

/// Failures of an op, each with the op's label before the text.
[[noreturn]] void fail_op(const op &the_op, const std::string &what);
[[noreturn]] void fail_op(const checked_op &the_op, const std::string &what);
[[noreturn]] void fail_shape(const checked_op &the_op, const std::string &what);
[[noreturn]] void fail_type(const checked_op &the_op, const std::string &what);

} // namespace gradnn::detail
