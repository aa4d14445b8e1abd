// The log that GRADNN_VERBOSE=1 turns on; silent by default.
#pragma once

#include <chrono>
#include <string>

namespace gradnn::detail {

/// Whether to log; the environment is read once.
bool verbose();

/// Writes "gradnn,<event>,<field>,...\n" to stderr in one piece. Fields hold
/// no commas.
void log_line(const std::string &fields);

/// Milliseconds since a point in time, for the last field of a line.
double milliseconds_since(std::chrono::steady_clock::time_point start);

} // namespace gradnn::detail
