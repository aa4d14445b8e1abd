#include "files/json_graph.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "files/json_text.hpp"
#include "input_error.hpp"
#include "logical_tensor_tools.hpp"
#include "op_names.hpp"
#include "op_schema.hpp"
#include "text.hpp"

namespace gradnn::detail {

namespace {

using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using property_type = logical_tensor::property_type;
using dims = logical_tensor::dims;

/// A name and what it stands for.
template <typename Value>
struct named {
    const char *name;
    Value value;
};

constexpr named<engine::kind> engine_kinds[] = {{"cpu", engine::kind::cpu},
        {"gpu", engine::kind::gpu}, {"any", engine::kind::any}};
constexpr named<fpmath_mode> fpmath_modes[] = {{"strict", fpmath_mode::strict},
        {"bf16", fpmath_mode::bf16}, {"f16", fpmath_mode::f16},
        {"tf32", fpmath_mode::tf32}, {"any", fpmath_mode::any}};
constexpr named<data_type> data_types[] = {{"f32", data_type::f32},
        {"bf16", data_type::bf16}, {"f16", data_type::f16},
        {"f64", data_type::f64}, {"s32", data_type::s32}, {"s8", data_type::s8},
        {"u8", data_type::u8}, {"boolean", data_type::boolean}};
constexpr named<layout_type> layout_types[] = {{"undef", layout_type::undef},
        {"any", layout_type::any}, {"strided", layout_type::strided},
        {"opaque", layout_type::opaque}};
constexpr named<property_type> property_types[] = {
        {"undef", property_type::undef}, {"variable", property_type::variable},
        {"constant", property_type::constant}};

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

template <typename Value, typename Read>
std::vector<Value> read_list(const json_node &node, const Read &read) {
    std::vector<Value> values(node.array_size());
    for (size_t index = 0; index < values.size(); ++index)
        values[index] = read(node.element(index));
    return values;
}

std::vector<int64_t> read_int64s(const json_node &node) {
    return read_list<int64_t>(
            node, [](const json_node &each) { return each.as_int64(); });
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
            if (!find_schema(the_op.get_kind())) continue;
            attr_node.fail("no op has an attribute of this name");
        }
        if (!seen.insert(*name).second)
            attr_node.fail(std::string("attribute ") + to_string(*name)
                    + " is given twice");
        read_attr(the_op, *name, attr_node);
    }
}

/// Absent, "" and [UNKNOWN] (what oneDNN writes for a tensor whose dims it
/// does not know) mean that nothing is said.
bool says_nothing(const std::optional<json_node> &node) {
    if (!node || node->value().is_null()) return true;
    if (node->value().is_string()) return node->as_string().empty();
    return node->array_size() == 1
            && node->element(0).value().is_number_integer()
            && node->element(0).value() == logical_tensor::unknown_dim;
}

dims read_dims(const json_node &node) {
    const dims shape = read_int64s(node);
    if (shape.size() > size_t {logical_tensor::max_ndims})
        node.fail(text("has ", shape.size(), " dims; at most ",
                logical_tensor::max_ndims, " are allowed"));
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] < 0 && shape[axis] != logical_tensor::unknown_dim)
            node.element(axis).fail(text("given ", shape[axis],
                    "; no dim may be negative (an unknown one is written ",
                    logical_tensor::unknown_dim, ")"));
    return shape;
}

dims read_strides(const json_node &node, const dims &shape) {
    const dims strides = read_int64s(node);
    if (strides.size() != shape.size())
        node.fail(text("has ", strides.size(), " strides for ", shape.size(),
                " dims"));
    for (size_t axis = 0; axis < strides.size(); ++axis)
        if (strides[axis] < 0)
            node.element(axis).fail(text(
                    "given ", strides[axis], "; no stride may be negative"));
    return strides;
}

logical_tensor read_tensor(const json_node &node) {
    if (node.value().is_null()) return {};
    node.want_object();
    const size_t id = node.at("id").as_id();
    const data_type type = chosen(node.at("dtype"), data_types);
    const auto layout_node = node.find("layout_type");
    const auto property_node = node.find("property_type");
    const layout_type layout = layout_node ? chosen(*layout_node, layout_types)
                                           : layout_type::strided;
    const property_type property = property_node
            ? chosen(*property_node, property_types)
            : property_type::undef;
    if (layout == layout_type::opaque)
        layout_node->fail("gradnn has no opaque layouts; allowed are strided, "
                          "any, undef");

    const json_node shape_node = node.at("shape");
    // What is not known yet is left to the library, layout included.
    const layout_type open
            = layout == layout_type::strided ? layout_type::any : layout;
    if (says_nothing(shape_node)) return {id, type, -1, open, property};
    const dims shape = read_dims(shape_node);
    if (std::find(shape.begin(), shape.end(), logical_tensor::unknown_dim)
            != shape.end())
        return {id, type, shape, open, property};

    const auto stride_node = node.find("stride");
    const bool given
            = layout == layout_type::strided && !says_nothing(stride_node);
    const dims strides
            = given ? read_strides(*stride_node, shape) : dense_strides(shape);
    const bool dense_fits = std::find(strides.begin(), strides.end(),
                                    logical_tensor::unknown_dim)
            == strides.end();
    if (!dense_fits || !extent_bytes(type, shape, strides))
        (given ? *stride_node : shape_node)
                .fail(text(given ? text_of(strides) : text_of(shape),
                        " reaches beyond 2^63 bytes"));
    if (layout != layout_type::strided)
        return {id, type, shape, layout, property};
    return {id, type, shape, strides, property};
}

/// All that the file says of each tensor id, to find disagreement.
class tensor_register {
public:
    void add(const logical_tensor &lt, const json_node &node, bool output) {
        if (lt.is_absent()) return;
        if (output) {
            const auto [known, fresh]
                    = producers_.emplace(lt.get_id(), node.path());
            if (!fresh)
                node.at("id").fail(text("tensor ", lt.get_id(),
                        " is an output already, at ", known->second));
        }
        const auto [known, fresh]
                = tensors_.emplace(lt.get_id(), entry {lt, node.path()});
        if (fresh) return;
        entry &before = known->second;
        if (lt.get_data_type() != before.lt.get_data_type())
            node.at("dtype").fail(text("tensor ", lt.get_id(), " is ",
                    to_string(lt.get_data_type()), " here and ",
                    to_string(before.lt.get_data_type()), " at ", before.path));
        compare_shapes(lt, before, node);
        // Keep the description that says more.
        if (!dims_known(before.lt)
                || before.lt.get_layout_type() != layout_type::strided)
            if (dims_known(lt)) before = {lt, node.path()};
    }

    bool contains(size_t id) const { return tensors_.contains(id); }

private:
    struct entry {
        logical_tensor lt;
        std::string path;
    };

    static void compare_shapes(const logical_tensor &lt, const entry &before,
            const json_node &node) {
        if (!dims_known(lt) || !dims_known(before.lt)) return;
        const dims shape = lt.get_dims();
        if (shape != before.lt.get_dims())
            node.at("shape").fail(text("tensor ", lt.get_id(), " has shape ",
                    text_of(shape), " here and ", text_of(before.lt.get_dims()),
                    " at ", before.path));
        if (lt.get_layout_type() != layout_type::strided
                || before.lt.get_layout_type() != layout_type::strided)
            return;
        const dims strides = lt.get_strides();
        for (size_t axis = 0; axis < shape.size(); ++axis)
            if (shape[axis] > 1
                    && strides[axis] != before.lt.get_strides()[axis])
                node.fail(text("tensor ", lt.get_id(), " has strides ",
                        text_of(strides), " here and ",
                        text_of(before.lt.get_strides()), " at ", before.path));
    }

    std::map<size_t, entry> tensors_;
    std::map<size_t, std::string> producers_;
};

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
    if (ops.array_size() == 0) ops.fail("has no ops; at least one is wanted");
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
