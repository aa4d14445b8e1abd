// What specifications are made of on the host, and written as source text.
#pragma once

#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/text.hpp"
#include "gpu/device/specification.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::jit {

inline element element_of(detail::data_type type) {
    using detail::data_type;
    return type == data_type::f64     ? element::f64
            : type == data_type::f32  ? element::f32
            : type == data_type::bf16 ? element::bf16
                                      : element::f16;
}
inline fused_op fused_op_of(detail::elementwise_kind kind) {
    return kind == detail::elementwise_kind::add ? fused_op::add
                                                 : fused_op::relu_backward;
}

/// An enumerator by its number.
inline std::string numbered(const char *type, auto value) {
    return detail::text(type, '(', static_cast<int>(value), ')');
}
/// Of a number all digits that it has, in every locale; what is a text already stays so.
template <typename Value>
std::string value_text(const Value &value) {
    if constexpr (std::is_same_v<Value, element>) {
        return numbered("element", value);
    } else if constexpr (std::is_same_v<Value, fused_op>) {
        return numbered("fused_op", value);
    } else if constexpr (std::is_same_v<Value, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<Value>) {
        char digits[40];
        return {digits, std::to_chars(digits, std::end(digits), value).ptr};
    } else {
        return value;
    }
}
template <typename Values>
std::string list_of(const Values &values, size_t count) {
    std::string list = "{";
    for (size_t i = 0; i < count; ++i)
        list += (i == 0 ? "" : ", ") + value_text(values[i]);
    return list + "}";
}
template <typename Value, size_t count>
std::string value_text(const Value (&values)[count]) {
    return list_of(values, count);
}

/// The fields of a struct: the name of each, and then its value.
inline void add_fields(std::string & /*to*/) {}
template <typename Value, typename... Others>
void add_fields(std::string &to, std::string_view name, const Value &value,
        const Others &...others) {
    const std::string text = value_text(value);
    to += to.empty() ? "" : text[0] == '{' ? ",\n    " : ", ";
    to += detail::text('.', name, " = ", text);
    add_fields(to, others...);
}
template <typename... Fields>
std::string fields_text(const Fields &...fields) {
    std::string made;
    add_fields(made, fields...);
    return "{" + made + "}";
}
/// What a kernel is compiled with: `specification`, a constant of a type of gradnn::gpu::`of`.
inline std::string header_of(std::string_view included, std::string_view of,
        std::string_view type, std::string_view value) {
    return detail::text("#include \"", included,
            "\"\nnamespace gradnn::gpu::", of, " {\nconstexpr ", type,
            " specification ", value, ";\n}\n");
}

} // namespace gradnn::gpu::jit
