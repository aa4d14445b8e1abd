// Shared memory by its own addresses, of 32 bits.
#pragma once

#include <cstdint>

namespace gradnn::gpu {

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    auto address = static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
    // Kept, or it would be computed anew for every use.
    asm volatile("" : "+r"(address));
    return address;
}
__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
    uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];"
                 : "=r"(word)
                 : "r"(address)
                 : "memory");
    return word;
}
__device__ __forceinline__ void store_shared(uint32_t address, uint32_t word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word)
                 : "memory");
}
__device__ __forceinline__ void store_shared_half(
        uint32_t address, unsigned short half) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(half)
                 : "memory");
}

/// Sums in one word: the compiler would split it into words of 4 bytes, of which a
/// warp has four in each bank.
__device__ __forceinline__ void store_shared(
        uint32_t address, const float (&sums)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
                 : "memory");
}
__device__ __forceinline__ void store_shared(
        uint32_t address, const float (&sums)[2]) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address),
                 "f"(sums[0]), "f"(sums[1])
                 : "memory");
}
__device__ __forceinline__ void store_shared(
        uint32_t address, const float (&sums)[1]) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(sums[0])
                 : "memory");
}
__device__ __forceinline__ void store_shared(
        uint32_t address, const double (&sums)[2]) {
    asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(address),
                 "d"(sums[0]), "d"(sums[1])
                 : "memory");
}
__device__ __forceinline__ void store_shared(
        uint32_t address, const double (&sums)[1]) {
    asm volatile("st.shared.f64 [%0], %1;" ::"r"(address), "d"(sums[0])
                 : "memory");
}

__device__ __forceinline__ void load_shared(
        float (&values)[1], uint32_t address) {
    asm volatile("ld.shared.f32 %0, [%1];"
                 : "=f"(values[0])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_shared(
        float (&values)[2], uint32_t address) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(values[0]), "=f"(values[1])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_shared(
        float (&values)[4], uint32_t address) {
    asm volatile(
            "ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
            : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
            : "r"(address)
            : "memory");
}
__device__ __forceinline__ void load_shared(
        double (&values)[1], uint32_t address) {
    asm volatile("ld.shared.f64 %0, [%1];"
                 : "=d"(values[0])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_shared(
        double (&values)[2], uint32_t address) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                 : "=d"(values[0]), "=d"(values[1])
                 : "r"(address)
                 : "memory");
}

} // namespace gradnn::gpu
