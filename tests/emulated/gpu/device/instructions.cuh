// In place of src/gpu/device/instructions.cuh: the same in C++.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulated/simt.hpp"

// One block runs at a time, so that what its threads share may be static.
#undef __shared__
#define __shared__ static

#define __noinline__

inline float __double2float_rz(double value) {
    const auto nearest = static_cast<float>(value);
    return std::abs(static_cast<double>(nearest)) > std::abs(value)
            ? std::nextafter(nearest, 0.0F)
            : nearest;
}
inline unsigned __float_as_uint(float value) {
    unsigned bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

namespace gradnn::gpu::jit {

inline const char *not_kept(const char *value) {
    return value;
}
inline float value_of_f16(uint16_t bits) {
    return __half2float(half_of_bits(bits));
}
template <typename Half>
uint32_t pair_of(Half low, Half high) {
    uint16_t bits[2];
    std::memcpy(bits, static_cast<const void *>(&low), 2);
    std::memcpy(bits + 1, static_cast<const void *>(&high), 2);
    return uint32_t {bits[1]} << 16 | bits[0];
}
inline uint32_t pair_of_f16(float low, float high) {
    return pair_of(__float2half_rn(low), __float2half_rn(high));
}
inline uint32_t pair_of_bf16(float low, float high) {
    return pair_of(__float2bfloat16_rn(low), __float2bfloat16_rn(high));
}

template <typename Word>
void store_whole(Word *to, const Word &word) {
    __stcs(to, word);
}

inline char *dynamic_shared() {
    return emulated::shared_memory;
}

} // namespace gradnn::gpu::jit
