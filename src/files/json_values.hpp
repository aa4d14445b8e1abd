// Values of a JSON graph that several of its parts have: one of a list of names, and
// arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/input_error.hpp"
#include "files/json_text.hpp"

namespace gradnn::detail {

/// A name and what it stands for.
template <typename Value>
struct named {
    const char *name;
    Value value;
};

template <typename Value, size_t count>
const Value *find_named(
        const named<Value> (&table)[count], const std::string &name) {
    for (const auto &row : table)
        if (name == row.name) return &row.value;
    return nullptr;
}

template <typename Value, size_t count>
Value chosen(const json_node &node, const named<Value> (&table)[count]) {
    const Value *found = find_named(table, node.as_string());
    if (found) return *found;
    std::string names;
    for (const auto &row : table)
        names += std::string(names.empty() ? "" : ", ") + row.name;
    node.fail("given \"" + one_line(node.as_string()) + "\", allowed are "
            + names);
}

template <typename Value, typename Read>
std::vector<Value> read_list(const json_node &node, const Read &read) {
    std::vector<Value> values(node.array_size());
    for (size_t index = 0; index < values.size(); ++index)
        values[index] = read(node.element(index));
    return values;
}

inline std::vector<int64_t> read_int64s(const json_node &node) {
    return read_list<int64_t>(
            node, [](const json_node &each) { return each.as_int64(); });
}

} // namespace gradnn::detail
