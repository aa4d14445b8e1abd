// Checks of an op against its schema, and typed access to checked attributes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gradnn/op.hpp>

#include "op_schema.hpp"

namespace gradnn::detail {

/// Throws invalid_graph_op, invalid_data_type or invalid_shape naming op, port
/// or attribute where the op is wrong in itself, whatever the shapes that are
/// not known yet. Returns the op in canonical form: attribute defaults filled
/// in, attribute strings in the schema's case, optional ports that are absent
/// present as logical_tensor(). An op that gradnn cannot compute is returned as
/// it is.
op checked(const op &the_op);

/// Failures of an op, each with the op's label before the text.
[[noreturn]] void fail_op(const op &the_op, const std::string &what);
[[noreturn]] void fail_shape(const op &the_op, const std::string &what);
[[noreturn]] void fail_type(const op &the_op, const std::string &what);

/// "input 1 (diff_dst)".
std::string port_label(bool output, size_t index, const port_row &row);

// Attributes of a checked op. The lists are empty where absent.
int64_t get_s64(const op &the_op, op::attr name);
bool get_bool(const op &the_op, op::attr name);
const std::string &get_string(const op &the_op, op::attr name);
std::span<const int64_t> get_s64_list(const op &the_op, op::attr name);
std::span<const float> get_f32_list(const op &the_op, op::attr name);
std::span<const double> get_f64_list(const op &the_op, op::attr name);

} // namespace gradnn::detail
