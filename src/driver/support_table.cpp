#include "support_table.hpp"

#include <algorithm>
#include <ostream>

#include "table.hpp"

namespace gradnn::driver {

using json = nlohmann::ordered_json;

std::string support_mark(const std::vector<json> &rows, const char *type) {
    const auto supported = [&](const json &row) {
        return row.at(type).at("supported").get<bool>();
    };
    if (std::all_of(rows.begin(), rows.end(), supported)) return "yes";
    return std::any_of(rows.begin(), rows.end(), supported) ? "part" : "-";
}

json merged_rows(const json &rows) {
    json result = rows;
    if (rows.empty()) return result;
    for (const auto &[key, value] : rows.front().items()) {
        if (!value.is_string()) continue;
        json kept = json::array();
        for (const json &row : result) {
            const auto same = [&](json other) {
                other[key] = row[key];
                return other == row;
            };
            const auto found = std::find_if(kept.begin(), kept.end(), same);
            if (found == kept.end())
                kept.push_back(row);
            else
                (*found)[key] = (*found)[key].get<std::string>() + ", "
                        + row[key].get<std::string>();
        }
        result = std::move(kept);
    }
    return result;
}

void write_support_rows(
        const json &rows, std::vector<std::string> &notes, std::ostream &out) {
    std::vector<std::string> header;
    for (const auto &[key, value] : rows.front().items())
        header.push_back(key);
    table text(header);
    for (const json &row : rows) {
        std::vector<std::string> cells;
        for (const auto &[key, value] : row.items()) {
            if (value.is_string()) {
                cells.push_back(value.get<std::string>());
                continue;
            }
            if (value["supported"].get<bool>()) {
                cells.emplace_back("yes");
                continue;
            }
            const auto reason = value["reason"].get<std::string>();
            auto known = std::find(notes.begin(), notes.end(), reason);
            if (known == notes.end()) known = notes.insert(known, reason);
            cells.push_back(
                    "no (" + std::to_string(known - notes.begin() + 1) + ")");
        }
        text.add(std::move(cells));
    }
    text.write(out);
}

} // namespace gradnn::driver
