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

/// The two f16 in a word.
__device__ __forceinline__ float low_f16(uint32_t pair) {
    float value;
    asm("{.reg .b16 low, high;\n\t"
        "mov.b32 {low, high}, %1;\n\t"
        "cvt.f32.f16 %0, low;}"
            : "=f"(value)
            : "r"(pair));
    return value;
}
__device__ __forceinline__ float high_f16(uint32_t pair) {
    float value;
    asm("{.reg .b16 low, high;\n\t"
        "mov.b32 {low, high}, %1;\n\t"
        "cvt.f32.f16 %0, high;}"
            : "=f"(value)
            : "r"(pair));
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

} // namespace gradnn::gpu::jit
