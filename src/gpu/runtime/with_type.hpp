// From the type of a tensor to the type that kernels are instantiated for.
#pragma once

#include <type_traits>

#include "gpu/device/dtype.cuh"
#include "kernel/problem.hpp"

namespace gradnn::gpu {

/// Calls body.template operator()<Type>() with the device type of a float
/// type; problems have no other.
template <typename Body>
auto with_float_type(detail::data_type type, const Body &body) {
    switch (type) {
        case detail::data_type::f64: return body.template operator()<double>();
        case detail::data_type::f16: return body.template operator()<__half>();
        case detail::data_type::bf16:
            return body.template operator()<__nv_bfloat16>();
        default: return body.template operator()<float>();
    }
}

/// What body.template operator()<Type>() returns for the device type of f16 or bf16.
template <typename Body>
auto with_half_precision_type(detail::data_type type, const Body &body) {
    return type == detail::data_type::f16
            ? body.template operator()<__half>()
            : body.template operator()<__nv_bfloat16>();
}

/// The same where sums of the type are kept in `Sum`; else nothing.
template <typename Sum, typename Body>
void with_type_of_sum(detail::data_type type, const Body &body) {
    with_float_type(type, [&]<typename Type>() {
        if constexpr (std::is_same_v<sum_of<Type>, Sum>)
            body.template operator()<Type>();
    });
}

} // namespace gradnn::gpu
