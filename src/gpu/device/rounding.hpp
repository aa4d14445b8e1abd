// Whole numbers divided and rounded, on the host and on the device.
#pragma once

#include <bit>
#include <cstdint>

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

/// n / by for n below 2^31.
struct exact_divider {
    uint32_t by = 1;
    uint32_t magic = 0x80000000U;
    uint32_t shift = 0;

    exact_divider() = default;
    explicit exact_divider(int64_t divisor)
        : by(static_cast<uint32_t>(divisor)),
          shift(static_cast<uint32_t>(std::bit_width(by - 1))) {
        magic = static_cast<uint32_t>(
                ((uint64_t {1} << (31 + shift)) + by - 1) / by);
    }

    __host__ __device__ uint32_t quotient(uint32_t n) const {
        return static_cast<uint32_t>((uint64_t {2 * n} * magic) >> 32) >> shift;
    }
};

/// A number to divide by: of 32 bits by a product, else by a division.
template <typename Index>
struct divisor {
    Index by = 1;
    exact_divider product;

    divisor() = default;
    explicit divisor(int64_t number) : by(static_cast<Index>(number)) {
        if constexpr (sizeof(Index) == 4) product = exact_divider(number);
    }

    /// Of n, which is not negative.
    __host__ __device__ Index quotient(Index n) const {
        if constexpr (sizeof(Index) == 4)
            return static_cast<Index>(
                    product.quotient(static_cast<uint32_t>(n)));
        else
            return n / by;
    }
};

} // namespace gradnn::gpu
