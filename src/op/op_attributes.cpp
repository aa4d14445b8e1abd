#include "op/op_attributes.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "base/text.hpp"
#include "op/labels.hpp"

namespace gradnn::detail {

namespace {

using attr = op::attr;

// What the words of the schemas mean.

template <typename Value>
struct meaning {
    const char *word;
    Value value;
};

constexpr meaning<interpolation_mode> modes[] = {
        {"nearest", interpolation_mode::nearest},
        {"linear", interpolation_mode::linear},
        {"bilinear", interpolation_mode::linear},
        {"trilinear", interpolation_mode::linear},
        {"cubic", interpolation_mode::cubic},
        {"bicubic", interpolation_mode::cubic},
};
constexpr meaning<coordinate_mode> coordinate_modes[] = {
        {"half_pixel", coordinate_mode::half_pixel},
        {"align_corners", coordinate_mode::align_corners},
        {"asymmetric", coordinate_mode::asymmetric},
};
constexpr meaning<coordinate_arithmetic> arithmetics[] = {
        {"exact", coordinate_arithmetic::exact},
        {"float32", coordinate_arithmetic::float32},
        {"float32_fma", coordinate_arithmetic::float32_fma},
        {"float64", coordinate_arithmetic::float64},
};
constexpr meaning<scale_rule> scale_rules[] = {
        {"shape_ratio", scale_rule::shape_ratio},
        {"given", scale_rule::given},
        {"ratios", scale_rule::ratios},
};
constexpr meaning<padding_rule> padding_rules[] = {
        {"none", padding_rule::none},
        {"same_upper", padding_rule::same_upper},
        {"same_lower", padding_rule::same_lower},
        {"valid", padding_rule::valid},
};
constexpr meaning<data_format> data_formats[] = {
        {"NCX", data_format::ncx},
        {"NXC", data_format::nxc},
};
constexpr meaning<weights_format> weights_formats[] = {
        {"OIX", weights_format::channels_first},
        {"IOX", weights_format::channels_first},
        {"XIO", weights_format::spatial_first},
        {"XOI", weights_format::spatial_first},
};
constexpr meaning<bool> broadcast_rules[] = {{"none", false}, {"numpy", true}};

/// `value` is a word that the schema allows.
template <typename Value, size_t count>
Value meaning_of(
        const meaning<Value> (&table)[count], const op::attr_value &value) {
    const auto &word = std::get<std::string>(value);
    for (const meaning<Value> &row : table)
        if (word == row.word) return row.value;
    throw std::logic_error(
            "a schema allows " + word + ", which has no meaning");
}

std::span<const int64_t> s64_list(const op::attr_value &value) {
    return std::get<std::vector<int64_t>>(value);
}

void read(op_attributes &to, attr name, const op::attr_value &value) {
    switch (name) {
        case attr::mode: to.mode = meaning_of(modes, value); break;
        case attr::coordinate_transformation_mode:
            to.coordinates = meaning_of(coordinate_modes, value);
            break;
        case attr::coordinate_arithmetic:
            to.arithmetic = meaning_of(arithmetics, value);
            break;
        case attr::scale_rule:
            to.scale_rule = meaning_of(scale_rules, value);
            break;
        case attr::cubic_coeff_a:
            to.cubic_coeff_a = std::get<float>(value);
            break;
        case attr::antialias: to.antialias = std::get<bool>(value); break;
        case attr::exclude_outside:
            to.exclude_outside = std::get<bool>(value);
            break;
        case attr::sizes: to.sizes = s64_list(value); break;
        case attr::scales:
            to.scales = std::get<std::vector<float>>(value);
            break;
        case attr::ratios:
            to.ratios = std::get<std::vector<double>>(value);
            break;
        case attr::strides: to.strides = s64_list(value); break;
        case attr::dilations: to.dilations = s64_list(value); break;
        case attr::pads_begin: to.pads_begin = s64_list(value); break;
        case attr::pads_end: to.pads_end = s64_list(value); break;
        case attr::output_padding: to.output_padding = s64_list(value); break;
        case attr::dst_shape: to.dst_shape = s64_list(value); break;
        case attr::weights_shape: to.weights_shape = s64_list(value); break;
        case attr::auto_pad:
            to.auto_pad = meaning_of(padding_rules, value);
            break;
        case attr::groups: to.groups = std::get<int64_t>(value); break;
        case attr::data_format:
            to.data_format = meaning_of(data_formats, value);
            break;
        case attr::weights_format:
            to.weights_format = meaning_of(weights_formats, value);
            break;
        case attr::auto_broadcast:
            to.numpy_broadcast = meaning_of(broadcast_rules, value);
            break;
        case attr::use_dst: to.use_dst = std::get<bool>(value); break;
        default:
            throw std::logic_error(text("attribute ", to_string(name),
                    " of a schema has no typed form"));
    }
}

// Types and words.

const char *name_of(attr_type type) {
    switch (type) {
        case attr_type::s64: return "s64";
        case attr_type::f32: return "f32";
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
        case attr_type::f32: return std::holds_alternative<float>(value);
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

/// The allowed word that equals `given`, whatever the case; empty where none does.
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
        case attr_type::f32: return std::strtof(row.fallback, nullptr);
        case attr_type::boolean: return std::string(row.fallback) == "true";
        default: return std::string(row.fallback);
    }
}

/// Each attribute is one of the schema's and has its type.
void check_names_and_types(const op &the_op, const op_schema &schema) {
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
                            name_of(value), ", expected ", name_of(row->type)));
    }
}

/// Defaults filled in, strings in canonical case.
op canonical(const op &the_op, const op_schema &schema) {
    op result(the_op.get_id(), the_op.get_kind(), the_op.get_name());
    const auto set = [&](attr name, const op::attr_value &value) {
        std::visit([&](const auto &v) { result.set_attr(name, v); }, value);
    };
    for (const attr_row &row : schema.attrs) {
        const auto found = the_op.get_attrs().find(row.name);
        if (found == the_op.get_attrs().end()) {
            if (row.required)
                fail_op(the_op,
                        text("attribute ", to_string(row.name), " is missing"));
            if (row.fallback) set(row.name, fallback_of(row));
        } else if (row.type == attr_type::string) {
            const auto &given = std::get<std::string>(found->second);
            const std::string word = canonical_word(row.allowed, given);
            if (word.empty())
                fail_op(the_op,
                        text("attribute ", to_string(row.name), ": given \"",
                                given, "\", allowed are ",
                                listed_words(row.allowed)));
            result.set_attr(row.name, word);
        } else {
            set(row.name, found->second);
        }
    }
    return result;
}

// Values.

constexpr int64_t attr_limit = int64_t {1} << 40;

void check_s64_values(const op &the_op, attr name,
        std::span<const int64_t> values, int64_t least) {
    for (const int64_t value : values)
        if (value < least || value > attr_limit)
            fail_op(the_op,
                    text("attribute ", to_string(name), " is ", text_of(values),
                            "; values from ", least, " to 2^40 are allowed"));
}

/// Which of an interpolation's attributes go together.
void check_filter_rules(const op &the_op, const op_attributes &attributes) {
    if (attributes.antialias && attributes.mode == interpolation_mode::nearest)
        fail_op(the_op,
                "attribute antialias is true and attribute mode is nearest; "
                "linear and cubic are allowed with it");
    // Weights that are divided by their sum (antialias, exclude_outside) have one of at least
    // 0.48 of their magnitudes then; at 4 it is 0.03, and their digits are lost.
    constexpr float most = 2;
    if (!(std::fabs(attributes.cubic_coeff_a) <= most))
        fail_op(the_op,
                text("attribute cubic_coeff_a is ", attributes.cubic_coeff_a,
                        "; values from -2 to 2 are allowed"));
}

void check_coordinate_rules(const op &the_op, const op_attributes &attributes) {
    const bool has_ratios = the_op.get_attrs().contains(attr::ratios);
    const bool wants_ratios = attributes.scale_rule == scale_rule::ratios;
    if (wants_ratios && !has_ratios)
        fail_op(the_op,
                "attribute scale_rule is ratios and attribute ratios "
                "is missing");
    if (!wants_ratios && has_ratios)
        fail_op(the_op,
                text("attribute ratios is given and attribute scale_rule is ",
                        word_of(the_op, attr::scale_rule),
                        "; ratios is allowed"));
    if (attributes.arithmetic == coordinate_arithmetic::exact) return;
    const auto refuse = [&](attr other, const char *allowed) {
        const std::string &arithmetic
                = word_of(the_op, attr::coordinate_arithmetic);
        fail_op(the_op,
                text("attribute coordinate_arithmetic is ", arithmetic,
                        " and attribute ", to_string(other), " is ",
                        word_of(the_op, other), "; ", arithmetic,
                        " is allowed with ", allowed, ", exact with all"));
    };
    if (attributes.mode != interpolation_mode::nearest)
        refuse(attr::mode, "nearest");
    if (attributes.coordinates == coordinate_mode::align_corners)
        refuse(attr::coordinate_transformation_mode,
                "half_pixel and asymmetric");
    if (attributes.scale_rule == scale_rule::given)
        refuse(attr::scale_rule, "shape_ratio and ratios");
}

/// Signs and finiteness; nothing that needs shapes.
void check_values(const op &the_op, const op_schema &schema,
        const op_attributes &attributes) {
    check_s64_values(the_op, attr::strides, attributes.strides, 1);
    check_s64_values(the_op, attr::dilations, attributes.dilations, 1);
    check_s64_values(
            the_op, attr::pads_begin, attributes.pads_begin, -attr_limit);
    check_s64_values(the_op, attr::pads_end, attributes.pads_end, -attr_limit);
    check_s64_values(
            the_op, attr::output_padding, attributes.output_padding, 0);
    check_s64_values(the_op, attr::sizes, attributes.sizes, 0);
    check_s64_values(the_op, attr::dst_shape, attributes.dst_shape, 0);
    check_s64_values(the_op, attr::weights_shape, attributes.weights_shape, 0);
    for (const float scale : attributes.scales)
        if (!std::isfinite(scale) || scale <= 0)
            fail_op(the_op,
                    text("attribute scales is ", text_of(attributes.scales),
                            "; positive finite values are allowed"));
    // Within this range coordinates are exact in 128 bits.
    for (const double ratio : attributes.ratios)
        if (!(ratio >= 0x1p-60 && ratio <= 0x1p60))
            fail_op(the_op,
                    text("attribute ratios is ", text_of(attributes.ratios),
                            "; values from 2^-60 to 2^60 are allowed"));
    if (schema.family == op_family::interpolation) {
        check_filter_rules(the_op, attributes);
        check_coordinate_rules(the_op, attributes);
    }
    if (attributes.groups < 1)
        fail_op(the_op,
                text("attribute groups is ", attributes.groups,
                        "; values from 1 are allowed"));
}

} // namespace

const std::string &word_of(const op &identity, op::attr name) {
    return std::get<std::string>(identity.get_attrs().at(name));
}

std::shared_ptr<const op_description> described(
        const op &the_op, const op_schema &schema) {
    check_names_and_types(the_op, schema);
    auto result = std::make_shared<op_description>(
            canonical(the_op, schema), &schema);
    for (const auto &[name, value] : result->identity.get_attrs())
        read(result->attributes, name, value);
    check_values(result->identity, schema, result->attributes);
    return result;
}

} // namespace gradnn::detail
