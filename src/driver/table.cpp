#include "table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace gradnn::driver {

namespace {

/// A positive number with so many significant digits, or all before the point
/// where they are more.
std::string with_digits(double value, int digits) {
    std::array<char, 64> text {};
    std::snprintf(text.data(), text.size(), "%.*e", digits - 1, value);
    const double rounded = std::strtod(text.data(), nullptr);
    const int exponent = static_cast<int>(std::floor(std::log10(rounded)));
    std::snprintf(text.data(), text.size(), "%.*f",
            std::max(0, digits - 1 - exponent), value);
    return text.data();
}

} // namespace

void table::write(std::ostream &out) const {
    std::vector<size_t> widths(rows_.front().size(), 0);
    for (const auto &row : rows_)
        for (size_t column = 0; column < widths.size(); ++column)
            widths[column] = std::max(widths[column], row.at(column).size());
    for (const auto &row : rows_) {
        std::string line;
        for (size_t column = 0; column < widths.size(); ++column) {
            line += row[column];
            line.append(widths[column] - row[column].size() + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out << line << '\n';
    }
}

std::string format(const char *pattern, double value) {
    std::array<char, 64> text {};
    std::snprintf(text.data(), text.size(), pattern, value);
    return text.data();
}

std::string time_text(double milliseconds) {
    if (!(milliseconds > 0)) return "0 us";
    constexpr double shortest_shown_in_ms = 0.9995; // 999.5 us round to 1 ms
    if (milliseconds < shortest_shown_in_ms)
        return with_digits(1e3 * milliseconds, 3) + " us";
    return with_digits(std::max(milliseconds, 1.0), 4) + " ms";
}

std::string without_parentheses(std::string text) {
    for (size_t open = text.find(" ("); open != std::string::npos;
            open = text.find(" (")) {
        const size_t close = std::min(text.find(')', open), text.size() - 1);
        text.erase(open, close - open + 1);
    }
    return text;
}

} // namespace gradnn::driver
