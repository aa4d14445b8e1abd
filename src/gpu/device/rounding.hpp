// Whole numbers divided and rounded, on the host and on the device.
#pragma once

#include <cuda_runtime_api.h>

namespace gradnn::gpu {

/// a / b, rounded up; neither is negative.
template <typename A, typename B>
__host__ __device__ constexpr auto ceil_div(A a, B b) {
    return (a + b - 1) / b;
}

/// a / b, rounded down; b is positive.
template <typename A, typename B>
__host__ __device__ constexpr auto floor_div(A a, B b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/// The multiple of `multiple` that is not below `value`.
template <typename A, typename B>
__host__ __device__ constexpr auto round_up(A value, B multiple) {
    return ceil_div(value, multiple) * multiple;
}

} // namespace gradnn::gpu
