#include "table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace gradnn::driver {

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

std::string without_parentheses(std::string text) {
    for (size_t open = text.find(" ("); open != std::string::npos;
            open = text.find(" (")) {
        const size_t close = std::min(text.find(')', open), text.size() - 1);
        text.erase(open, close - open + 1);
    }
    return text;
}

} // namespace gradnn::driver
