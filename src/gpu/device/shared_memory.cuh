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

} // namespace gradnn::gpu
