// The tables of bench.
#pragma once

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

namespace gradnn::driver {

/// "graph.json", and of several ops "ConvBackward+Add", of a result.
std::string short_graph_name(const nlohmann::ordered_json &result);
std::string joined_ops(const nlohmann::ordered_json &result);

/// A row for every partition of a report, below it one for each of its steps
/// where there are several; then what the columns mean.
void write_bench_table(const nlohmann::ordered_json &report, std::ostream &out);

} // namespace gradnn::driver
