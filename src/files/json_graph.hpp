// Reads graphs in oneDNN Graph's JSON format.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gradnn/engine.hpp>
#include <gradnn/op.hpp>

namespace gradnn::detail {

/// A graph as a file describes it. ops[i] is the file's "graph[i]".
struct json_graph {
    /// The file, as messages name it.
    std::string file;
    engine::kind engine_kind = engine::kind::cpu;
    fpmath_mode fpmath = fpmath_mode::strict;
    std::vector<op> ops;
    /// Empty where the file has none. Every id is one of the ops' tensors.
    std::vector<size_t> input_ports;
    std::vector<size_t> output_ports;
};

/// Reads what ONEDNN_GRAPH_DUMP writes, what benchdnn reads, and what people
/// write by hand in the same format.
///
/// Checks all that the format says: JSON of at most 64 levels without
/// duplicate keys, types, names of kinds, attributes and data types, unique op
/// ids, one shape, type and layout for each tensor id, one producer for each
/// tensor, sizes that fit in 63 bits. What an op's schema says is checked by
/// graph::add_op. Throws input_error naming the file, the JSON path, what was
/// given and what is allowed.
json_graph read_json_graph(const std::string &path);

/// The same from text; `file` is the name for messages.
json_graph parse_json_graph(std::string_view text, const std::string &file);

/// "graph[2].inputs[0]", for messages about ops that were read.
std::string json_port_path(size_t op_index, bool output, size_t port_index);

} // namespace gradnn::detail
