// What specifications are made of on the host, and written as source text.
#pragma once

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
inline std::string_view truth(bool value) {
    return value ? "true" : "false";
}
template <typename Values, typename Text>
std::string list_of(const Values &values, size_t count, const Text &one) {
    std::string list = "{";
    for (size_t i = 0; i < count; ++i)
        list += (i == 0 ? "" : ", ") + one(values[i]);
    return list + "}";
}
inline std::string epilogue_text(const fused_op (&ops)[2]) {
    return list_of(
            ops, 2, [](fused_op op) { return numbered("jit::fused_op", op); });
}

} // namespace gradnn::gpu::jit
