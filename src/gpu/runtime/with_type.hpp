// From the type of a tensor to the type that kernels are instantiated for.
#pragma once

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

} // namespace gradnn::gpu
