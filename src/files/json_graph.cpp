#include "files/json_graph.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "base/input_error.hpp"
#include "base/text.hpp"
#include "files/json_tensors.hpp"
#include "files/json_text.hpp"
#include "files/json_values.hpp"
#include "files/nearest.hpp"
#include "op/op_names.hpp"
#include "op/op_schema.hpp"

namespace gradnn::detail {

namespace {

constexpr named<engine::kind> engine_kinds[] = {{"cpu", engine::kind::cpu},
        {"gpu", engine::kind::gpu}, {"any", engine::kind::any}};
constexpr named<fpmath_mode> fpmath_modes[] = {{"strict", fpmath_mode::strict},
        {"bf16", fpmath_mode::bf16}, {"f16", fpmath_mode::f16},
        {"tf32", fpmath_mode::tf32}, {"any", fpmath_mode::any}};
// Names that files written by oneDNN Graph before 3.0 use.
constexpr named<const char *> kind_aliases[] = {
        {"InterpolateBackprop", "InterpolateBackward"},
        {"BiasAddBackprop", "BiasAddBackward"},
        {"ReLUBackprop", "ReLUBackward"},
        {"ConvolutionBackpropData", "ConvolutionBackwardData"},
        {"ConvolutionBackpropFilters", "ConvolutionBackwardWeights"},
        {"ConvTransposeBackpropData", "ConvTransposeBackwardData"},
        {"ConvTransposeBackpropFilters", "ConvTransposeBackwardWeights"},
};
constexpr named<const char *> attr_aliases[] = {
        {"filter_format", "weights_format"},
        {"filter_shape", "weights_shape"},
        {"output_shape", "dst_shape"},
};

// Attributes without a meaning here: what oneDNN Graph's partitioner notes in
// its dumps.
constexpr const char *ignored_attrs[] = {"partition_id", "backend", "matched"};

template <size_t count>
std::string current_name(
        const std::string &name, const named<const char *> (&aliases)[count]) {
    const char *const *current = find_named(aliases, name);
    return current ? *current : name;
}

op::kind read_kind(const json_node &node) {
    const std::string name = current_name(node.as_string(), kind_aliases);
    if (const auto kind = kind_named(name)) return *kind;
    std::string names;
    for (const op_schema &schema : all_schemas())
        names += std::string(names.empty() ? "" : ", ") + schema.name;
    node.fail("unknown op kind \"" + one_line(name) + "\"; gradnn has " + names
            + ", and leaves alone ops of oneDNN Graph's other kinds");
}

bool read_bool(const json_node &node) {
    if (node.value().is_boolean()) return node.value().get<bool>();
    // oneDNN writes 0 and 1.
    if (!node.value().is_number_integer() || node.as_int64() < 0
            || node.as_int64() > 1)
        node.fail_type("true, false, 1 or 0");
    return node.as_int64() == 1;
}

/// benchdnn's files write a shape that is not given as twelve zeros.
bool stands_for_absent(op::attr name, const std::vector<int64_t> &values) {
    return (name == op::attr::dst_shape || name == op::attr::weights_shape)
            && values.size() == size_t {logical_tensor::max_ndims}
    && std::all_of(values.begin(), values.end(),
            [](int64_t value) { return value == 0; });
}

void read_attr(op &the_op, op::attr name, const json_node &node) {
    const json_node type = node.at("type");
    const std::string &type_name = type.as_string();
    const json_node value = node.at("value");
    if (type_name == "string") {
        the_op.set_attr(name, value.as_string());
    } else if (type_name == "bool") {
        the_op.set_attr(name, read_bool(value));
    } else if (type_name == "s64") {
        the_op.set_attr(name, value.as_int64());
    } else if (type_name == "f32") {
        the_op.set_attr(name, value.as_float());
    } else if (type_name == "s64[]") {
        const auto values = read_int64s(value);
        if (!stands_for_absent(name, values)) the_op.set_attr(name, values);
    } else if (type_name == "f32[]") {
        the_op.set_attr(name,
                read_list<float>(value,
                        [](const json_node &each) { return each.as_float(); }));
    } else if (type_name == "f64[]") {
        the_op.set_attr(
                name, read_list<double>(value, [](const json_node &each) {
                    return each.as_double();
                }));
    } else {
        type.fail("given \"" + one_line(type_name)
                + "\", allowed are string, bool, s64, f32, s64[], f32[], "
                  "f64[]");
    }
}

void read_attrs(op &the_op, const json_node &node) {
    node.want_object();
    std::set<op::attr> seen;
    for (const auto &item : node.value().items()) {
        if (std::find(std::begin(ignored_attrs), std::end(ignored_attrs),
                    item.key())
                != std::end(ignored_attrs))
            continue;
        const json_node attr_node = *node.find(item.key());
        const auto name = attr_named(current_name(item.key(), attr_aliases));
        if (!name || *name == op::attr::undef) {
            const op_schema *const schema = find_schema(the_op.get_kind());
            if (!schema) continue;
            std::vector<std::string> names;
            for (const attr_row &row : schema->attrs)
                names.emplace_back(to_string(row.name));
            attr_node.fail("no op has an attribute of this name"
                    + suggestion(item.key(), names));
        }
        if (!seen.insert(*name).second)
            attr_node.fail(std::string("attribute ") + to_string(*name)
                    + " is given twice");
        read_attr(the_op, *name, attr_node);
    }
}

op read_op(const json_node &node, tensor_register &tensors) {
    node.want_object();
    const auto name = node.find("name");
    op result(node.at("id").as_id(), read_kind(node.at("kind")),
            name ? one_line(name->as_string()) : std::string());
    if (const auto attrs = node.find("attrs")) read_attrs(result, *attrs);
    for (const bool output : {false, true}) {
        const json_node ports = node.at(output ? "outputs" : "inputs");
        for (size_t index = 0; index < ports.array_size(); ++index) {
            const json_node port = ports.element(index);
            const logical_tensor lt = read_tensor(port);
            tensors.add(lt, port, output);
            if (output)
                result.add_output(lt);
            else
                result.add_input(lt);
        }
    }
    return result;
}

std::vector<size_t> read_ports(
        const std::optional<json_node> &node, const tensor_register &tensors) {
    if (!node) return {};
    return read_list<size_t>(*node, [&](const json_node &each) {
        const size_t id = each.as_id();
        if (!tensors.contains(id))
            each.fail(text("tensor ", id, " is not a port of any op"));
        return id;
    });
}

fpmath_mode read_fpmath(const json_node &node) {
    // Newer files may hold an object with the mode and what it applies to.
    return chosen(
            node.value().is_object() ? node.at("mode") : node, fpmath_modes);
}

constexpr size_t most_bytes = 16 << 20;

} // namespace

json_graph parse_json_graph(std::string_view content, const std::string &file) {
    const nlohmann::json document = parse_json(content, file);
    const json_node root(document, file);
    root.want_object();

    json_graph result;
    result.file = file;
    if (const auto kind = root.find("engine_kind"))
        result.engine_kind = chosen(*kind, engine_kinds);
    if (const auto mode = root.find("fpmath_mode"))
        result.fpmath = read_fpmath(*mode);

    const json_node ops = root.at("graph");
    if (ops.array_size() == 0) ops.fail("has no ops; at least one is needed");
    tensor_register tensors;
    std::map<size_t, size_t> op_ids;
    for (size_t index = 0; index < ops.array_size(); ++index) {
        const json_node node = ops.element(index);
        result.ops.push_back(read_op(node, tensors));
        const auto [known, fresh]
                = op_ids.emplace(result.ops.back().get_id(), index);
        if (!fresh)
            node.at("id").fail(text("op id ", known->first,
                    " is that of graph[", known->second, "] already"));
    }
    result.input_ports = read_ports(root.find("input_ports"), tensors);
    result.output_ports = read_ports(root.find("output_ports"), tensors);
    return result;
}

json_graph read_json_graph(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    if (!in)
        throw input_error(
                path, std::string("cannot be read: ") + std::strerror(errno));
    std::string content;
    std::array<char, 1 << 16> chunk;
    while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
        content.append(chunk.data(), static_cast<size_t>(in.gcount()));
        if (content.size() > most_bytes)
            throw input_error(path,
                    text("is larger than a graph may be: ", most_bytes,
                            " bytes"));
    }
    if (in.bad())
        throw input_error(path, "cannot be read: it is not a regular file");
    return parse_json_graph(content, path);
}

std::string json_port_path(size_t op_index, bool output, size_t port_index) {
    return text("graph[", op_index, "].", output ? "outputs" : "inputs", "[",
            port_index, "]");
}

} // namespace gradnn::detail
