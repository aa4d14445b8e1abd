// Tables of text for the terminal.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace gradnn::driver {

/// Collects rows and writes them with aligned columns.
class table {
public:
    explicit table(std::vector<std::string> header)
        : rows_ {std::move(header)} {}

    /// As many cells as the header has.
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    void write(std::ostream &out) const;

private:
    std::vector<std::vector<std::string>> rows_;
};

/// printf for one number: format("%.3f", time).
std::string format(const char *pattern, double value);

/// A time for people: "12.3 us" below a millisecond, "1.234 ms" from there on.
std::string time_text(double milliseconds);

/// "oneDNN 3.2.0 (jit:avx512_core) + reorder" without " (jit:avx512_core)".
std::string without_parentheses(std::string text);

} // namespace gradnn::driver
