// The floating-point types of tensors on the CPU, and their scalar
// conversions, which the SIMD ones (simd.hpp) agree with bit by bit.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// What memory holds; arithmetic is done in accumulator_of<T>.
struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

template <typename T>
using accumulator_of
        = std::conditional_t<std::is_same_v<T, double>, double, float>;

constexpr float to_f32(bf16 value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

constexpr float to_f32(f16 value) {
    const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
    const uint32_t magnitude = value.bits & 0x7FFFU;
    if (magnitude >= 0x7C00U) // Inf and NaN; a NaN becomes a quiet one
        return std::bit_cast<float>(sign | 0x7F800000U
                | (magnitude > 0x7C00U ? 0x400000U : 0)
                | (magnitude & 0x3FFU) << 13);
    if (magnitude < 0x400U) // subnormal: a multiple of 2^-24
        return std::bit_cast<float>(sign
                | std::bit_cast<uint32_t>(
                        static_cast<float>(magnitude) * 0x1p-24F));
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
}

/// To nearest even; NaN stays NaN, Inf on overflow.
constexpr bf16 to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U)
        return {static_cast<uint16_t>(bits >> 16 | 0x40U)};
    return {static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16)};
}

/// To nearest even; NaN stays NaN, Inf on overflow.
constexpr f16 to_f16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    uint32_t result = 0;
    if (magnitude > 0x7F800000U) { // NaN
        result = 0x7E00U | (magnitude >> 13 & 0x1FFU);
    } else if (magnitude >= 0x47800000U) { // 65536 and above
        result = 0x7C00U;
    } else if (magnitude >= 0x38800000U) { // normal: rebias, carry upwards
        result = (magnitude - 0x38000000U + 0xFFFU + (magnitude >> 13 & 1U))
                >> 13;
    } else { // subnormal: adding 0.5 leaves the rounded value in the low bits
        result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F)
                - std::bit_cast<uint32_t>(0.5F);
    }
    return {static_cast<uint16_t>(sign | result)};
}

/// f32 with the last bit set where it is not exact, so that a second rounding
/// to a format with at least two bits less rounds as a single one would.
constexpr float round_to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    const auto back = static_cast<double>(nearest);
    if (back == value || value != value) return nearest;
    auto bits = std::bit_cast<uint32_t>(nearest);
    const bool outwards = value > 0 ? back > value : back < value;
    if (outwards) --bits; // the neighbour towards 0
    return std::bit_cast<float>(bits | 1U);
}

template <typename To, typename From>
constexpr To convert_scalar(From value) {
    if constexpr (std::is_same_v<To, From>)
        return value;
    else if constexpr (std::is_same_v<From, bf16> || std::is_same_v<From, f16>)
        return convert_scalar<To>(to_f32(value));
    else if constexpr (std::is_same_v<To, bf16>)
        return to_bf16(std::is_same_v<From, double>
                        ? round_to_odd(static_cast<double>(value))
                        : static_cast<float>(value));
    else if constexpr (std::is_same_v<To, f16>)
        return to_f16(std::is_same_v<From, double>
                        ? round_to_odd(static_cast<double>(value))
                        : static_cast<float>(value));
    else
        return static_cast<To>(value);
}

/// Calls body(T {}) with the C++ type of a floating-point data type. Every
/// other type is the caller's error and calls nothing.
template <typename Body>
void with_type(detail::data_type type, const Body &body) {
    switch (type) {
        case detail::data_type::f32: body(float {}); break;
        case detail::data_type::f64: body(double {}); break;
        case detail::data_type::bf16: body(bf16 {}); break;
        case detail::data_type::f16: body(f16 {}); break;
        default: break;
    }
}

} // namespace gradnn::cpu
