// The tables of support, made of its rows of JSON. A row has strings, which
// say what was asked, and cells {"supported", "reason"}, which are the answers.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace gradnn::driver {

/// "yes" where every row supports the type, "part" where some do, "-".
std::string support_mark(
        const std::vector<nlohmann::ordered_json> &rows, const char *type);

/// Rows that differ in one string alone, and in no answer, become one row that
/// lists the strings: "linear, bilinear, trilinear". Strings are tried from
/// the first to the last.
nlohmann::ordered_json merged_rows(const nlohmann::ordered_json &rows);

/// A table of rows: "yes", or the number of a note with the reason. New
/// reasons are added to the notes.
void write_support_rows(const nlohmann::ordered_json &rows,
        std::vector<std::string> &notes, std::ostream &out);

} // namespace gradnn::driver
