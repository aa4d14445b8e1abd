#include "op/labels.hpp"

#include "base/text.hpp"

namespace gradnn::detail {

std::string op_label(const op &the_op) {
    std::string label = to_string(the_op.get_kind());
    if (!the_op.get_name().empty()) label += " '" + the_op.get_name() + "'";
    return label + text(" (op ", the_op.get_id(), ")");
}

std::string port_label(const op_schema &schema, port_reference port) {
    const auto rows = port.output ? schema.outputs : schema.inputs;
    return text(port.output ? "output " : "input ", port.index, " (",
            rows[port.index].name, ")");
}

std::string port_label(const checked_op &the_op, port_reference port) {
    return port_label(the_op.schema(), port);
}

error named(const error &failure, const op &the_op, const char *kernel) {
    return {failure.status,
            text(op_label(the_op), ": ", kernel, ": ", failure.what())};
}

void fail_op(const op &the_op, const std::string &what) {
    throw error(status::invalid_graph_op, op_label(the_op) + ": " + what);
}

void fail_op(const checked_op &the_op, const std::string &what) {
    fail_op(the_op.identity(), what);
}

void fail_shape(const checked_op &the_op, const std::string &what) {
    throw error(
            status::invalid_shape, op_label(the_op.identity()) + ": " + what);
}

void fail_type(const checked_op &the_op, const std::string &what) {
    throw error(status::invalid_data_type,
            op_label(the_op.identity()) + ": " + what);
}

} // namespace gradnn::detail
