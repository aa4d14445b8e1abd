// Instructions that C++ has no words for, as inline PTX. tests/emulated has this header
// as C++ for the CPU.
#pragma once

#include <cstdint>

namespace gradnn::gpu::jit {

/// The block's dynamic shared memory.
__device__ __forceinline__ char *dynamic_shared() {
    extern __shared__ __align__(128) char memory_of_block[];
    return memory_of_block;
}

/// The pointer, of which compilers keep nothing that they could compute ahead of a loop.
__device__ __forceinline__ const char *not_kept(const char *value) {
    asm volatile("" : "+l"(value));
    return value;
}

__device__ __forceinline__ float value_of_f16(uint16_t bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

/// Two values in a word, each rounded to nearest even.
__device__ __forceinline__ uint32_t pair_of_f16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ __forceinline__ uint32_t pair_of_bf16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/// To global memory by one instruction: a compiler stores the words of a vector apart, among
/// other code, if it likes. (The intrinsics for this order a store among those of other
/// threads, which costs as much as it gains.)
template <typename Word>
__device__ __forceinline__ void store_whole(Word *to, const Word &word) {
    const auto at = __cvta_generic_to_global(to);
    if constexpr (sizeof word == 16) {
        uint4 bits;
        memcpy(&bits, &word, sizeof word);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at),
                     "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
                     : "memory");
    } else if constexpr (sizeof word == 8) {
        uint2 bits;
        memcpy(&bits, &word, sizeof word);
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(at), "r"(bits.x),
                     "r"(bits.y)
                     : "memory");
    } else {
        *to = word;
    }
}

} // namespace gradnn::gpu::jit
