// What specifications are made of on the host, and written as source text.
#pragma once

#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

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
inline std::string value_text(std::string value) {
    return value;
}
inline std::string value_text(bool value) {
    return value ? "true" : "false";
}
/// With all digits.
inline std::string value_text(double value) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17g", value);
    return digits;
}
std::string value_text(std::integral auto value) {
    return std::to_string(value);
}
inline std::string value_text(element value) {
    return numbered("element", value);
}
inline std::string value_text(fused_op value) {
    return numbered("fused_op", value);
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
