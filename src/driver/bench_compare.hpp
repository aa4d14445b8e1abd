// Before and after: a report of bench beside an older one.
#pragma once

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

namespace gradnn::driver {

/// Reads a report that bench --json wrote, of this version or an older one.
/// Throws input_error naming the file where it is none.
nlohmann::ordered_json read_bench_report(const std::string &file);

/// A row for every partition of `report`, and its steps, that `old` has too:
/// the same graph file (or, moved, one of its name), in the order of
/// execution. Marks times that are longer, or shorter, by more than both runs'
/// spread: the distance of their quartiles, or, in reports that have none, of
/// the least and the longest time.
void write_bench_comparison(const nlohmann::ordered_json &old,
        const std::string &old_file, const nlohmann::ordered_json &report,
        std::ostream &out);

} // namespace gradnn::driver
