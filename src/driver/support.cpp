// gradnn support: which op runs with which data type on which engine, and of
// one op in which variants. Nothing is typed here: every cell builds an op and
// asks the library.
#include <algorithm>
#include <iostream>

#include <nlohmann/json.hpp>

#include <gradnn/graph.hpp>

#include "commands.hpp"
#include "files/nearest.hpp"
#include "op/op_schema.hpp"
#include "support_table.hpp"
#include "table.hpp"

namespace gradnn::driver {

using detail::attr_row;
using detail::op_family;
using detail::op_schema;
using detail::port_role;
using detail::port_row;
using json = nlohmann::ordered_json;

namespace {

using data_type = logical_tensor::data_type;
using dims = logical_tensor::dims;

constexpr data_type float_types[]
        = {data_type::f32, data_type::bf16, data_type::f16, data_type::f64};

/// Dims of a small example in which all ports of an op agree: a 3x3
/// convolution with padding of 4 to 8 channels, a resampling by 2.
dims example_dims(const op_schema &schema, port_role role, bool channels_last) {
    const auto activation = [&](int64_t channels, int64_t size) {
        return channels_last ? dims {1, size, size, channels}
                             : dims {1, channels, size, size};
    };
    switch (role) {
        case port_role::large: return activation(4, 6);
        case port_role::small:
        case port_role::element: return activation(8, 6);
        case port_role::weights: return {8, 4, 3, 3};
        case port_role::bias:
            return {schema.family == op_family::transposed ? 4 : 8};
        case port_role::source: return activation(4, 6);
        case port_role::resampled: return activation(4, 12);
        case port_role::shape: return {2};
    }
    return {};
}

/// Attributes that fit example_dims.
void set_example_attrs(
        op &the_op, const op_schema &schema, bool channels_last) {
    const std::vector<int64_t> ones = {1, 1};
    for (const attr_row &row : schema.attrs) {
        const op::attr name = row.name;
        if (name == op::attr::data_format)
            the_op.set_attr<std::string>(name, channels_last ? "NXC" : "NCX");
        else if (name == op::attr::weights_format)
            the_op.set_attr<std::string>(name,
                    schema.family == op_family::transposed ? "IOX" : "OIX");
        else if (name == op::attr::mode)
            the_op.set_attr<std::string>(name, "linear");
        else if (name == op::attr::sizes)
            the_op.set_attr(name, std::vector<int64_t> {12, 12});
        else if (row.required)
            the_op.set_attr(name, ones);
    }
}

/// `master`: the type of diff_weights and diff_bias, where it is not `type`.
op example_op(const op_schema &schema, data_type type, data_type master,
        bool channels_last = false) {
    op result(0, schema.kind);
    size_t id = 0;
    const auto port = [&](const port_row &row, data_type port_type) {
        return logical_tensor(id++, port_type,
                example_dims(schema, row.role, channels_last),
                logical_tensor::layout_type::strided);
    };
    for (const port_row &row : schema.inputs)
        if (row.role != port_role::shape) result.add_input(port(row, type));
    for (const port_row &row : schema.outputs) {
        const bool follows_master
                = row.role == port_role::weights || row.role == port_role::bias;
        result.add_output(port(row, follows_master ? master : type));
    }
    set_example_attrs(result, schema, channels_last);
    return result;
}

/// Empty where the op runs. Where there is a device a kernel must take it too.
std::string why_not(const op &the_op, engine::kind kind) {
    try {
        const partition part(the_op, kind);
        if (!part.is_supported()) return part.unsupported_reason();
        if (engine::get_count(kind) > 0)
            part.compile(part.get_input_ports(), part.get_output_ports(),
                    engine(kind, 0));
        return {};
    } catch (const error &failure) {
        return failure.what();
    }
}

json cell(const op &the_op, engine::kind kind) {
    const std::string reason = why_not(the_op, kind);
    if (reason.empty()) return {{"supported", true}};
    return {{"supported", false}, {"reason", reason}};
}

bool has_master(const op_schema &schema) {
    return port_index(schema.outputs, port_role::weights) >= 0
            || port_index(schema.outputs, port_role::bias) >= 0;
}

constexpr const char *f32_gradients = "diff_weights, diff_bias f32";

/// Rows of one op, or, where `name` is empty, of all.
json op_rows(engine::kind kind, const std::string &name) {
    json rows = json::array();
    for (const op_schema &schema : detail::all_schemas()) {
        if (!name.empty() && name != schema.name) continue;
        json row = {{"op", schema.name}, {"outputs", "of the input's type"}};
        for (const data_type type : float_types)
            row[to_string(type)] = cell(example_op(schema, type, type), kind);
        rows.push_back(row);
        if (!has_master(schema)) continue;
        row = {{"op", schema.name}, {"outputs", f32_gradients}};
        for (const data_type type : float_types)
            row[to_string(type)]
                    = cell(example_op(schema, type, data_type::f32), kind);
        rows.push_back(row);
    }
    return rows;
}

constexpr const char *modes[]
        = {"nearest", "linear", "bilinear", "trilinear", "cubic"};
constexpr const char *coordinate_modes[]
        = {"half_pixel", "align_corners", "asymmetric"};
constexpr const char *size_sources[] = {"sizes", "scales", "sizes input"};

op interpolation_op(const char *mode, const char *coordinates,
        const std::string &size_from, bool channels_last, data_type type) {
    const op_schema &schema
            = *detail::find_schema(op::kind::InterpolateBackward);
    const auto tensor = [&](size_t id, port_role role, data_type port_type) {
        return logical_tensor(id, port_type,
                example_dims(schema, role, channels_last),
                logical_tensor::layout_type::strided);
    };
    op result(0, schema.kind);
    result.add_input(tensor(0, port_role::source, type));
    result.add_input(tensor(1, port_role::resampled, type));
    result.add_output(tensor(2, port_role::source, type));
    result.set_attr<std::string>(op::attr::mode, mode);
    result.set_attr<std::string>(
            op::attr::coordinate_transformation_mode, coordinates);
    result.set_attr<std::string>(
            op::attr::data_format, channels_last ? "NXC" : "NCX");
    if (size_from == "sizes")
        result.set_attr(op::attr::sizes, std::vector<int64_t> {12, 12});
    else if (size_from == "scales")
        result.set_attr(op::attr::scales, std::vector<float> {2, 2});
    else
        result.add_input(tensor(3, port_role::shape, data_type::s32));
    return result;
}

/// The table that oneDNN Graph documents, and what gradnn has beyond it.
json interpolation_rows(engine::kind kind) {
    json rows = json::array();
    for (const char *mode : modes)
        for (const char *coordinates : coordinate_modes)
            for (const char *size_from : size_sources)
                for (const bool channels_last : {false, true}) {
                    json row = {{"mode", mode}, {"coordinates", coordinates},
                            {"size from", size_from},
                            {"layout", channels_last ? "NXC" : "NCX"}};
                    for (const data_type type : float_types)
                        row[to_string(type)]
                                = cell(interpolation_op(mode, coordinates,
                                               size_from, channels_last, type),
                                        kind);
                    rows.push_back(row);
                }
    return rows;
}

constexpr const char *interpolation_name = "InterpolateBackward";

json engines_json(const std::string &name) {
    json engines = json::array();
    for (const auto kind : {engine::kind::cpu, engine::kind::gpu}) {
        json each = {{"engine", to_string(kind)},
                {"devices", engine::get_count(kind)},
                {"ops", op_rows(kind, name)}};
        if (name.empty() || name == interpolation_name)
            each["interpolation"] = interpolation_rows(kind);
        engines.push_back(std::move(each));
    }
    return engines;
}

/// "yes", "part" or "-": whether an engine runs the variants of an op in a type.
std::string mark_of(
        const json &engine, const std::string &name, data_type type) {
    std::vector<json> rows;
    // f32 gradients of weights belong to 16-bit types; f64 has no such variant.
    const bool narrow = type == data_type::bf16 || type == data_type::f16;
    for (const json &row : engine["ops"])
        if (row["op"] == name && (narrow || row["outputs"] != f32_gradients))
            rows.push_back(row);
    if (name == interpolation_name)
        for (const json &row : engine["interpolation"])
            rows.push_back(row);
    return support_mark(rows, to_string(type));
}

/// Why an engine that has no device supports nothing at all; else empty.
std::string why_nothing(const json &engine) {
    if (engine["devices"].get<size_t>() > 0) return {};
    std::string reason;
    for (const json &row : engine["ops"])
        for (const data_type type : float_types) {
            const json &cell = row[to_string(type)];
            if (cell["supported"].get<bool>()) return {};
            if (reason.empty()) reason = cell["reason"].get<std::string>();
        }
    return reason;
}

/// A row an op, a column an engine and type.
void write_overview(const json &engines) {
    std::vector<std::string> titles = {"op"};
    std::vector<const json *> shown;
    for (const json &each : engines) {
        if (!why_nothing(each).empty()) continue;
        shown.push_back(&each);
        std::string prefix = each["engine"].get<std::string>() + " ";
        for (const data_type type : float_types) {
            titles.push_back(prefix + to_string(type));
            prefix.clear();
        }
    }
    table rows(titles);
    for (const op_schema &schema : detail::all_schemas()) {
        std::vector<std::string> cells = {schema.name};
        for (const json *each : shown)
            for (const data_type type : float_types)
                cells.push_back(mark_of(*each, schema.name, type));
        rows.add(std::move(cells));
    }
    rows.write(std::cout);
    std::cout << "yes: in every variant; part: in some; -: in none; \"gradnn "
                 "support OP\" lists the variants of one op\n";
    for (const json &each : engines) {
        const std::string reason = why_nothing(each);
        if (!reason.empty())
            std::cout << each["engine"].get<std::string>()
                      << ": nothing: " << reason << '\n';
    }
}

/// The variants of one op.
void write_detail(const json &engines, const std::string &name) {
    std::vector<std::string> notes;
    for (const json &each : engines) {
        std::cout << name << " on " << each["engine"].get<std::string>() << ", "
                  << each["devices"].get<size_t>() << " here\n";
        json rows = each[name == interpolation_name ? "interpolation" : "ops"];
        for (json &row : rows)
            row.erase("op");
        write_support_rows(merged_rows(rows), notes, std::cout);
        std::cout << '\n';
    }
    for (size_t index = 0; index < notes.size(); ++index)
        std::cout << '(' << index + 1 << ") " << notes[index] << '\n';
}

} // namespace

int support(const support_options &options) {
    if (!options.op.empty()) {
        std::vector<std::string> names;
        for (const op_schema &schema : detail::all_schemas())
            names.emplace_back(schema.name);
        if (std::find(names.begin(), names.end(), options.op) == names.end())
            throw usage_error("support: unknown op \"" + options.op + "\""
                    + detail::suggestion(options.op, names)
                    + " (\"gradnn support\" lists all)");
    }
    const json engines = engines_json(options.op);
    if (options.as_json)
        std::cout << json {{"engines", engines}}.dump(2) << '\n';
    else if (options.op.empty())
        write_overview(engines);
    else
        write_detail(engines, options.op);
    return 0;
}

} // namespace gradnn::driver
