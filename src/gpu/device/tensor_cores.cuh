// Tensor cores, and shared memory by its own addresses, of 32 bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

/// Loads four matrices of 8x8 elements, transposed: lane i gives the address of the i-th of
/// their 32 rows.
__device__ __forceinline__ void load_turned_matrices(
        uint32_t (&words)[4], uint32_t address) {
    asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
            "{%0, %1, %2, %3}, [%4];"
            : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
            : "r"(address)
            : "memory");
}

/// sums += a * b, of 16x16 and 16x8 elements, as mma.m16n8k16 deals them out: with
/// g = lane / 4 and t = lane % 4, a has in its words rows g, g + 8, g, g + 8 and
/// columns 2t and 2t + 1, of the last two words 8 further on; b column g and rows
/// 2t and 2t + 1, then 8 further on; the sums rows g, g, g + 8, g + 8 and columns
/// 2t, 2t + 1, 2t, 2t + 1.
template <typename Type>
__device__ __forceinline__ void multiply_matrices(float (&sums)[4],
        const uint32_t (&left)[2], const uint32_t (&right)[2], uint32_t b0,
        uint32_t b1) {
    if constexpr (std::is_same_v<Type, __half>)
        asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(left[0]), "r"(left[1]), "r"(right[0]), "r"(right[1]),
                "r"(b0), "r"(b1));
    else
        asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                : "r"(left[0]), "r"(left[1]), "r"(right[0]), "r"(right[1]),
                "r"(b0), "r"(b1));
}

/// d = a * b + c in f64, of 16x4 and 4x8 elements, as mma.m16n8k4 deals them out.
/// Before compute capability 9.0 there is a product of 8 rows alone, of which two make
/// it: a thread's numbers of the second one follow those of the first.
__device__ __forceinline__ void multiply_f64_matrices(
        double *d, const double *a, double b, const double *c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64.rn "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(b), "d"(c[0]), "d"(c[1]),
                 "d"(c[2]), "d"(c[3]));
#else
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile(
                "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64.rn "
                "{%0, %1}, {%2}, {%3}, {%4, %5};"
                : "=d"(d[2 * half]), "=d"(d[2 * half + 1])
                : "d"(a[half]), "d"(b), "d"(c[2 * half]), "d"(c[2 * half + 1]));
#endif
}

} // namespace gradnn::gpu
