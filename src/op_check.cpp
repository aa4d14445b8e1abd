#include "op_check.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "logical_tensor_tools.hpp"
#include "op_names.hpp"
#include "problem.hpp"
#include "shapes.hpp"
#include "text.hpp"

namespace gradnn::detail {

namespace {

const char *name_of(attr_type type) {
    switch (type) {
        case attr_type::s64: return "s64";
        case attr_type::boolean: return "bool";
        case attr_type::string: return "string";
        case attr_type::s64_list: return "s64[]";
        case attr_type::f32_list: return "f32[]";
        case attr_type::f64_list: return "f64[]";
    }
    return "unknown";
}

const char *name_of(const op::attr_value &value) {
    constexpr const char *names[]
            = {"s64", "f32", "bool", "string", "s64[]", "f32[]", "f64[]"};
    return names[value.index()];
}

bool holds(const op::attr_value &value, attr_type type) {
    switch (type) {
        case attr_type::s64: return std::holds_alternative<int64_t>(value);
        case attr_type::boolean: return std::holds_alternative<bool>(value);
        case attr_type::string:
            return std::holds_alternative<std::string>(value);
        case attr_type::s64_list:
            return std::holds_alternative<std::vector<int64_t>>(value);
        case attr_type::f32_list:
            return std::holds_alternative<std::vector<float>>(value);
        case attr_type::f64_list:
            return std::holds_alternative<std::vector<double>>(value);
    }
    return false;
}

bool same_word(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
            [](unsigned char x, unsigned char y) {
                return std::tolower(x) == std::tolower(y);
            });
}

/// The allowed word that equals `given` but for case; empty where none does.
std::string canonical_word(std::string_view allowed, std::string_view given) {
    while (!allowed.empty()) {
        const size_t bar = std::min(allowed.find('|'), allowed.size());
        if (same_word(allowed.substr(0, bar), given))
            return std::string(allowed.substr(0, bar));
        allowed.remove_prefix(std::min(bar + 1, allowed.size()));
    }
    return {};
}

std::string listed_words(std::string_view allowed) {
    std::string words;
    for (const char letter : allowed)
        words += letter == '|' ? std::string(", ") : std::string(1, letter);
    return words;
}

op::attr_value fallback_of(const attr_row &row) {
    switch (row.type) {
        case attr_type::s64: return int64_t {std::stoll(row.fallback)};
        case attr_type::boolean: return std::string(row.fallback) == "true";
        default: return std::string(row.fallback);
    }
}

/// Fills defaults, brings strings into canonical case.
void check_attributes(op &the_op, const op_schema &schema) {
    for (const auto &[name, value] : the_op.get_attrs()) {
        const auto row = std::find_if(schema.attrs.begin(), schema.attrs.end(),
                [&, key = name](const attr_row &r) { return r.name == key; });
        if (row == schema.attrs.end())
            fail_op(the_op,
                    text("attribute ", to_string(name),
                            " is not one of this op's"));
        if (!holds(value, row->type))
            fail_op(the_op,
                    text("attribute ", to_string(name), ": given a ",
                            name_of(value), ", wants ", name_of(row->type)));
    }
    for (const attr_row &row : schema.attrs) {
        const auto found = the_op.get_attrs().find(row.name);
        if (found == the_op.get_attrs().end()) {
            if (row.required)
                fail_op(the_op,
                        text("attribute ", to_string(row.name), " is missing"));
            if (row.fallback)
                std::visit([&](const auto &v) { the_op.set_attr(row.name, v); },
                        fallback_of(row));
        } else if (row.type == attr_type::string) {
            const auto &given = std::get<std::string>(found->second);
            const std::string word = canonical_word(row.allowed, given);
            if (word.empty())
                fail_op(the_op,
                        text("attribute ", to_string(row.name), ": given \"",
                                given, "\", allowed are ",
                                listed_words(row.allowed)));
            the_op.set_attr(row.name, word);
        }
    }
}

constexpr int64_t attr_limit = int64_t {1} << 40;

void check_s64_values(const op &the_op, op::attr name, int64_t least) {
    for (const int64_t value : get_s64_list(the_op, name))
        if (value < least || value > attr_limit)
            fail_op(the_op,
                    text("attribute ", to_string(name), " is ",
                            text_of(get_s64_list(the_op, name)),
                            "; values from ", least,
                            " to 2^40 are "
                            "allowed"));
}

/// Which of an interpolation's attributes go together.
void check_coordinate_rules(const op &the_op) {
    const std::string &rule = get_string(the_op, op::attr::scale_rule);
    const bool has_ratios = the_op.get_attrs().contains(op::attr::ratios);
    if (rule == "ratios" && !has_ratios)
        fail_op(the_op,
                "attribute scale_rule is ratios and attribute ratios "
                "is missing");
    if (rule != "ratios" && has_ratios)
        fail_op(the_op,
                text("attribute ratios is given and attribute scale_rule is ",
                        rule, "; ratios is allowed"));
    const std::string &arithmetic
            = get_string(the_op, op::attr::coordinate_arithmetic);
    if (arithmetic == "exact") return;
    const auto refuse = [&](op::attr other, const char *allowed) {
        fail_op(the_op,
                text("attribute coordinate_arithmetic is ", arithmetic,
                        " and attribute ", to_string(other), " is ",
                        get_string(the_op, other), "; ", arithmetic,
                        " is allowed with ", allowed, ", exact with all"));
    };
    if (get_string(the_op, op::attr::mode) != "nearest")
        refuse(op::attr::mode, "nearest");
    if (get_string(the_op, op::attr::coordinate_transformation_mode)
            == "align_corners")
        refuse(op::attr::coordinate_transformation_mode,
                "half_pixel and asymmetric");
    if (rule == "given") refuse(op::attr::scale_rule, "shape_ratio and ratios");
}

/// Signs and finiteness; nothing that needs shapes.
void check_attribute_values(const op &the_op, const op_schema &schema) {
    check_s64_values(the_op, op::attr::strides, 1);
    check_s64_values(the_op, op::attr::dilations, 1);
    check_s64_values(the_op, op::attr::pads_begin, -attr_limit);
    check_s64_values(the_op, op::attr::pads_end, -attr_limit);
    check_s64_values(the_op, op::attr::output_padding, 0);
    check_s64_values(the_op, op::attr::sizes, 0);
    check_s64_values(the_op, op::attr::dst_shape, 0);
    check_s64_values(the_op, op::attr::weights_shape, 0);
    for (const float scale : get_f32_list(the_op, op::attr::scales))
        if (!std::isfinite(scale) || scale <= 0)
            fail_op(the_op,
                    text("attribute scales is ",
                            text_of(get_f32_list(the_op, op::attr::scales)),
                            "; positive finite values are allowed"));
    // Within this range coordinates are exact in 128 bits.
    for (const double ratio : get_f64_list(the_op, op::attr::ratios))
        if (!(ratio >= 0x1p-60 && ratio <= 0x1p60))
            fail_op(the_op,
                    text("attribute ratios is ",
                            text_of(get_f64_list(the_op, op::attr::ratios)),
                            "; values from 2^-60 to 2^60 are allowed"));
    if (schema.family == op_family::interpolation)
        check_coordinate_rules(the_op);
    const bool grouped = schema.family == op_family::convolution
            || schema.family == op_family::transposed;
    if (grouped && get_s64(the_op, op::attr::groups) < 1)
        fail_op(the_op,
                text("attribute groups is ", get_s64(the_op, op::attr::groups),
                        "; values from 1 are allowed"));
}

void check_port_count(const op &the_op, const char *what, size_t given,
        std::span<const port_row> rows) {
    if (given > rows.size())
        fail_op(the_op,
                text("has ", given, " ", what, "s; at most ", rows.size(),
                        " are allowed"));
}

/// Rank, dims and layout, as far as they are known.
void check_port_tensor(const op &the_op, const op_schema &schema,
        const logical_tensor &lt, const std::string &label, port_role role) {
    if (lt.get_layout_type() == logical_tensor::layout_type::opaque)
        fail_op(the_op,
                label
                        + " has an opaque layout; gradnn has none, only "
                          "strided tensors are allowed");
    logical_tensor::dims dims;
    try {
        dims = lt.get_dims();
    } catch (const error &) {
        return; // rank unknown: compile will know
    }
    const auto rank = static_cast<int>(dims.size());
    const bool flat = role == port_role::shape || role == port_role::bias;
    const int least = flat ? 1 : schema.min_rank;
    const int most = flat ? 1 : schema.max_rank;
    if (rank < least || rank > most)
        fail_shape(the_op,
                text(label, " has ", rank, " dims ", text_of(dims), "; ",
                        least == most ? text(least) : text(least, " to ", most),
                        " are allowed"));
    for (const int64_t dim : dims)
        if (dim < 0 && dim != logical_tensor::unknown_dim)
            fail_shape(the_op,
                    text(label, " has dims ", text_of(dims),
                            "; none may be negative"));
    if (!dims_known(lt)) return;
    if (lt.get_layout_type() != logical_tensor::layout_type::strided) {
        if (!extent_bytes(lt.get_data_type(), dims, dense_strides(dims)))
            fail_shape(the_op,
                    text(label, " has dims ", text_of(dims),
                            ", more bytes than 63 bits can count"));
        return;
    }
    const auto strides = lt.get_strides();
    for (const int64_t stride : strides)
        if (stride < 0)
            fail_shape(the_op,
                    text(label, " has strides ", text_of(strides),
                            "; none may be negative or unknown"));
    if (!extent_bytes(lt.get_data_type(), dims, strides))
        fail_shape(the_op,
                text(label, " has dims ", text_of(dims), " and strides ",
                        text_of(strides),
                        ", more bytes than 63 bits can count"));
}

void check_output_overlap(
        const op &the_op, const logical_tensor &lt, const std::string &label) {
    if (!dims_known(lt)
            || lt.get_layout_type() != logical_tensor::layout_type::strided)
        return;
    if (elements_overlap(lt.get_dims(), lt.get_strides()))
        fail_shape(the_op,
                text(label, " has dims ", text_of(lt.get_dims()),
                        " and strides ", text_of(lt.get_strides()),
                        ": elements overlap, an output must not"));
}

bool is_float(data_type type) {
    return type == data_type::f32 || type == data_type::bf16
            || type == data_type::f16 || type == data_type::f64;
}

void check_port_type(const op &the_op, const logical_tensor &lt,
        const std::string &label, port_role role, bool output,
        data_type common) {
    const data_type given = lt.get_data_type();
    if (role == port_role::shape) {
        if (given != data_type::s32)
            fail_type(the_op,
                    text(label, " is ", to_string(given), "; s32 is allowed"));
        return;
    }
    const bool half = common == data_type::bf16 || common == data_type::f16;
    const bool master
            = output && (role == port_role::weights || role == port_role::bias);
    if (given == common || (half && master && given == data_type::f32)) return;
    fail_type(the_op,
            text(label, " is ", to_string(given), "; ", to_string(common),
                    half && master ? " or f32" : "",
                    " is allowed, as input 0 is ", to_string(common)));
}

} // namespace

void fail_op(const op &the_op, const std::string &what) {
    throw error(status::invalid_graph_op, op_label(the_op) + ": " + what);
}

void fail_shape(const op &the_op, const std::string &what) {
    throw error(status::invalid_shape, op_label(the_op) + ": " + what);
}

void fail_type(const op &the_op, const std::string &what) {
    throw error(status::invalid_data_type, op_label(the_op) + ": " + what);
}

std::string port_label(bool output, size_t index, const port_row &row) {
    return text(output ? "output " : "input ", index, " (", row.name, ")");
}

int64_t get_s64(const op &the_op, op::attr name) {
    return std::get<int64_t>(the_op.get_attrs().at(name));
}

bool get_bool(const op &the_op, op::attr name) {
    return std::get<bool>(the_op.get_attrs().at(name));
}

const std::string &get_string(const op &the_op, op::attr name) {
    return std::get<std::string>(the_op.get_attrs().at(name));
}

std::span<const int64_t> get_s64_list(const op &the_op, op::attr name) {
    const auto found = the_op.get_attrs().find(name);
    if (found == the_op.get_attrs().end()) return {};
    return std::get<std::vector<int64_t>>(found->second);
}

std::span<const float> get_f32_list(const op &the_op, op::attr name) {
    const auto found = the_op.get_attrs().find(name);
    if (found == the_op.get_attrs().end()) return {};
    return std::get<std::vector<float>>(found->second);
}

std::span<const double> get_f64_list(const op &the_op, op::attr name) {
    const auto found = the_op.get_attrs().find(name);
    if (found == the_op.get_attrs().end()) return {};
    return std::get<std::vector<double>>(found->second);
}

op checked(const op &the_op) {
    const op_schema *schema = find_schema(the_op.get_kind());
    if (!schema && kind_named(to_string(the_op.get_kind()))) return the_op;
    if (!schema)
        throw error(status::invalid_graph_op,
                text("op ", the_op.get_id(), ": its kind ",
                        static_cast<int>(the_op.get_kind()),
                        " is none of op::kind"));
    check_port_count(
            the_op, "input", the_op.get_inputs().size(), schema->inputs);
    check_port_count(
            the_op, "output", the_op.get_outputs().size(), schema->outputs);

    op result = the_op;
    for (size_t index = result.get_inputs().size();
            index < schema->inputs.size(); ++index)
        result.add_input(logical_tensor());
    for (size_t index = result.get_outputs().size();
            index < schema->outputs.size(); ++index)
        result.add_output(logical_tensor());

    check_attributes(result, *schema);
    check_attribute_values(result, *schema);

    const auto check_ports = [&](bool output) {
        const auto rows = output ? schema->outputs : schema->inputs;
        const auto &ports = output ? result.get_outputs() : result.get_inputs();
        for (size_t index = 0; index < rows.size(); ++index) {
            const port_row &row = rows[index];
            const std::string label = port_label(output, index, row);
            if (ports[index].is_absent()) {
                if (row.required) fail_op(result, label + " is missing");
                continue;
            }
            const data_type common = result.get_inputs()[0].get_data_type();
            if (!output && index == 0 && !is_float(common))
                fail_type(result,
                        text(label, " is ", to_string(common),
                                "; f32, bf16, f16, f64 are allowed"));
            check_port_type(
                    result, ports[index], label, row.role, output, common);
            check_port_tensor(result, *schema, ports[index], label, row.role);
            if (output) check_output_overlap(result, ports[index], label);
        }
    };
    check_ports(false);
    check_ports(true);
    const auto &outputs = result.get_outputs();
    if (std::all_of(outputs.begin(), outputs.end(),
                [](const logical_tensor &lt) { return lt.is_absent(); }))
        fail_op(result, "no output is wanted; at least one must be");
    const auto &inputs = result.get_inputs();
    check_ranks(result, *schema);
    if (std::all_of(inputs.begin(), inputs.end(), [](const logical_tensor &lt) {
            return lt.is_absent() || dims_known(lt);
        }))
        with_shapes(result, false); // throws where they disagree
    return result;
}

} // namespace gradnn::detail
