#include "op/graph_json.hpp"

#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gradnn/version.hpp>

#include "kernel/engine_impl.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

using dims = logical_tensor::dims;
using layout_type = logical_tensor::layout_type;
using property_type = logical_tensor::property_type;

/// Bytes of the UTF-8 character that text begins with; 0 where it is none.
size_t character_length(std::string_view text) {
    const auto byte = [&](size_t index) {
        return index < text.size() ? static_cast<unsigned char>(text[index])
                                   : 0U;
    };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const size_t length = first >= 0xC2 && first <= 0xDF ? 2
            : first >= 0xE0 && first <= 0xEF             ? 3
            : first >= 0xF0 && first <= 0xF4             ? 4
                                                         : 0;
    for (size_t index = 1; index < length; ++index)
        if (byte(index) < 0x80 || byte(index) > 0xBF) return 0;
    // Overlong forms, surrogates, beyond U+10FFFF.
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)
            || (first == 0xF0 && byte(1) < 0x90)
            || (first == 0xF4 && byte(1) > 0x8F))
        return 0;
    return length;
}

std::string json_string(std::string_view value) {
    constexpr const char *digits = "0123456789abcdef";
    std::string result = "\"";
    while (!value.empty()) {
        const size_t length = character_length(value);
        const auto code = static_cast<unsigned char>(value.front());
        if (length == 0) {
            result += "\\ufffd";
        } else if (code < 0x20) {
            result += "\\u00";
            result += digits[code / 16];
            result += digits[code % 16];
        } else {
            if (code == '"' || code == '\\') result += '\\';
            result += value.substr(0, length);
        }
        value.remove_prefix(length == 0 ? 1 : length);
    }
    return result + '"';
}

/// Not by a stream: the caller's locale must not matter.
std::string json_number(int64_t value) {
    return std::to_string(value);
}
/// As many digits as the float64 needs, so that it is read back exactly.
std::string json_number(double value) {
    std::array<char, 32> digits;
    const auto end = std::to_chars(
            digits.data(), digits.data() + digits.size(), value);
    return {digits.data(), end.ptr};
}
std::string json_number(float value) {
    return json_number(static_cast<double>(value));
}

template <typename Values>
std::string json_list(const Values &values) {
    std::string result = "[";
    for (const auto &value : values) {
        if (result.size() > 1) result += ", ";
        result += json_number(value);
    }
    return result + ']';
}

std::string json_attr(const char *name, const op::attr_value &value) {
    const auto written = [&]() -> std::pair<const char *, std::string> {
        if (const auto *text = std::get_if<std::string>(&value))
            return {"string", json_string(*text)};
        if (const auto *flag = std::get_if<bool>(&value))
            return {"bool", *flag ? "1" : "0"};
        if (const auto *integer = std::get_if<int64_t>(&value))
            return {"s64", json_number(*integer)};
        if (const auto *real = std::get_if<float>(&value))
            return {"f32", json_number(*real)};
        if (const auto *list = std::get_if<std::vector<int64_t>>(&value))
            return {"s64[]", json_list(*list)};
        if (const auto *list = std::get_if<std::vector<float>>(&value))
            return {"f32[]", json_list(*list)};
        return {"f64[]", json_list(std::get<std::vector<double>>(value))};
    }();
    return json_string(name) + ": {\"type\": \"" + written.first
            + "\", \"value\": " + written.second + '}';
}

const char *name_of(layout_type layout) {
    switch (layout) {
        case layout_type::undef: return "undef";
        case layout_type::any: return "any";
        case layout_type::strided: return "strided";
        case layout_type::opaque: break;
    }
    return "opaque";
}

const char *name_of(property_type property) {
    switch (property) {
        case property_type::undef: return "undef";
        case property_type::variable: return "variable";
        case property_type::host_scalar: return "host_scalar";
        case property_type::constant: break;
    }
    return "constant";
}

std::string json_tensor(const logical_tensor &lt) {
    if (lt.is_absent()) return "null";
    const dims shape = access::ndims(lt) < 0
            ? dims {logical_tensor::unknown_dim}
            : lt.get_dims();
    const bool has_strides
            = lt.get_layout_type() == layout_type::strided && dims_known(lt);
    return "{\"id\": " + std::to_string(lt.get_id()) + ", \"dtype\": \""
            + to_string(lt.get_data_type())
            + "\", \"shape\": " + json_list(shape) + ", \"stride\": "
            + (has_strides ? json_list(lt.get_strides()) : "\"\"")
            + ", \"layout_type\": \"" + name_of(lt.get_layout_type())
            + "\", \"property_type\": \"" + name_of(lt.get_property_type())
            + "\"}";
}

/// The elements, each on a line of its own.
std::string json_lines(char open, const std::vector<std::string> &elements,
        char close, const std::string &indent) {
    std::string result(1, open);
    for (size_t index = 0; index < elements.size(); ++index)
        result += (index == 0 ? "\n" : ",\n") + indent + "  " + elements[index];
    return result + (elements.empty() ? "" : "\n" + indent) + close;
}

std::string json_op(const op &the_op) {
    std::vector<std::string> attrs;
    for (const auto &[name, value] : the_op.get_attrs())
        attrs.push_back(json_attr(to_string(name), value));
    const auto tensors = [](const std::vector<logical_tensor> &ports) {
        std::vector<std::string> written;
        for (const logical_tensor &lt : ports)
            written.push_back(json_tensor(lt));
        return json_lines('[', written, ']', "      ");
    };
    return json_lines('{',
            {"\"id\": " + std::to_string(the_op.get_id()),
                    "\"name\": " + json_string(the_op.get_name()),
                    "\"kind\": " + json_string(to_string(the_op.get_kind())),
                    "\"attrs\": " + json_lines('{', attrs, '}', "      "),
                    "\"inputs\": " + tensors(the_op.get_inputs()),
                    "\"outputs\": " + tensors(the_op.get_outputs())},
            '}', "    ");
}

/// Tensors that no op makes, and tensors that no op reads.
std::pair<std::vector<int64_t>, std::vector<int64_t>> ends_of(
        std::span<const op> ops) {
    std::set<size_t> made;
    std::set<size_t> read;
    for (const op &the_op : ops) {
        for (const logical_tensor &lt : the_op.get_inputs())
            if (!lt.is_absent()) read.insert(lt.get_id());
        for (const logical_tensor &lt : the_op.get_outputs())
            if (!lt.is_absent()) made.insert(lt.get_id());
    }
    std::pair<std::vector<int64_t>, std::vector<int64_t>> ends;
    for (const size_t id : read)
        if (!made.contains(id)) ends.first.push_back(static_cast<int64_t>(id));
    for (const size_t id : made)
        if (!read.contains(id)) ends.second.push_back(static_cast<int64_t>(id));
    return ends;
}

} // namespace

const char *name_of(fpmath_mode mode) {
    switch (mode) {
        case fpmath_mode::strict: return "strict";
        case fpmath_mode::bf16: return "bf16";
        case fpmath_mode::f16: return "f16";
        case fpmath_mode::any: return "any";
        case fpmath_mode::tf32: break;
    }
    return "tf32";
}

std::string graph_json(
        std::span<const op> ops, engine::kind kind, fpmath_mode fpmath) {
    const auto [inputs, outputs] = ends_of(ops);
    std::vector<std::string> graph;
    for (const op &the_op : ops)
        graph.push_back(json_op(the_op));
    const std::string version = std::to_string(version_major) + '.'
            + std::to_string(version_minor) + '.'
            + std::to_string(version_patch);
    return json_lines('{',
                   {"\"version\": " + json_string(version),
                           "\"engine_kind\": " + json_string(to_string(kind)),
                           "\"fpmath_mode\": " + json_string(name_of(fpmath)),
                           "\"input_ports\": " + json_list(inputs),
                           "\"output_ports\": " + json_list(outputs),
                           "\"graph\": " + json_lines('[', graph, ']', "  ")},
                   '}', "")
            + '\n';
}

} // namespace gradnn::detail
