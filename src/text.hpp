// Pieces of error messages.
#pragma once

#include <span>
#include <sstream>
#include <string>

#include <gradnn/op.hpp>
#include <gradnn/status.hpp>

namespace gradnn::detail {

/// All arguments written one after the other.
template <typename... Parts>
std::string text(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

/// "[2, 3, 5]"; an unknown dim is written "?".
std::string text_of(std::span<const int64_t> values);
std::string text_of(std::span<const float> values);
std::string text_of(std::span<const double> values);

/// Writes a plain failure of an op: "InterpolateBackward 'up' (op 3): ...".
std::string op_label(const op &the_op);

/// A failure of a kernel, with the op and the kernel named.
error named(const error &failure, const op &the_op, const char *kernel);

} // namespace gradnn::detail
