// In place of src/gpu/jit/instructions.cuh: the same in C++.
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

inline float low_f16(uint32_t pair) {
    return __half2float(half_of_bits(static_cast<unsigned short>(pair)));
}
inline float high_f16(uint32_t pair) {
    return low_f16(pair >> 16);
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

inline void wait_for_earlier_work() {}
inline unsigned char *dynamic_shared() {
    return reinterpret_cast<unsigned char *>(emulated::shared_memory);
}

using copy_barrier = uint64_t;
inline copy_barrier *shared_barrier() {
    static copy_barrier barrier;
    return &barrier;
}
inline void begin_barrier(copy_barrier *barrier) {
    *barrier = 0;
}
inline void expect_copies(copy_barrier *barrier, uint32_t bytes) {
    *barrier += bytes;
}
inline void copy_bulk(void *shared, const void *global, uint32_t bytes,
        copy_barrier *barrier) {
    if (reinterpret_cast<uintptr_t>(shared) % 16 != 0
            || reinterpret_cast<uintptr_t>(global) % 16 != 0 || bytes % 16 != 0)
        throw std::out_of_range("a bulk copy between multiples of 16 bytes");
    std::memcpy(shared, global, bytes);
    *barrier -= bytes;
}
inline void wait_for_copies(copy_barrier *barrier, uint32_t /*parity*/) {
    if (*barrier != 0)
        throw std::out_of_range("a wait for bytes that nothing copies");
}

} // namespace gradnn::gpu::jit
