// Copies a strided tensor into another layout and float type.
#pragma once

#include <array>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// dst[i] = src[i] for all i below dims, in strides of elements. Types are
/// f16, bf16, f32 or f64; narrowing rounds to nearest even, once. Dims of 1
/// may pad the rank. src strides may be 0; dst elements are distinct.
struct conversion {
    detail::data_type src_type = detail::data_type::undef;
    detail::data_type dst_type = detail::data_type::undef;
    int rank = 0;
    std::array<int64_t, 6> dims {};
    std::array<int64_t, 6> src_strides {};
    std::array<int64_t, 6> dst_strides {};
};

/// Runs on all threads; SIMD where either side is contiguous, blocked where
/// the contiguous axes differ (a transpose).
void convert(const conversion &problem, const void *src, void *dst);

} // namespace gradnn::cpu
