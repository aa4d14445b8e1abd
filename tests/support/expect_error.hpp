// Failures of the library: status and message.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <gradnn/status.hpp>

namespace gradnn::test {

/// One row of a table of errors: what is done, and what it must say.
struct error_row {
    std::string name;
    std::function<void()> action;
    gradnn::status expected;
    /// Each must be in the message.
    std::vector<std::string> words;
};

inline void PrintTo(const error_row &row, std::ostream *out) {
    *out << row.name;
}

/// Adds a failure to the test unless `action` throws gradnn::error with this
/// status and these words in its message.
void expect_error(const error_row &row);

} // namespace gradnn::test
