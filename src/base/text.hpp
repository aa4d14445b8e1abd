// Pieces of error messages.
#pragma once

#include <span>
#include <sstream>
#include <string>

#include <gradnn/status.hpp>
#include <gradnn/tensor.hpp>

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

} // namespace gradnn::detail
