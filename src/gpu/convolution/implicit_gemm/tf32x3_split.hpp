// An f32 number as two that tensor cores can read, for products that are as
// exact as f32's own.
//
// TF32 has f32's exponent and 10 of its 23 bits of fraction. A finite x is
// split into big, its leading 11 significant bits, and small = x - big, which
// is exact, has the sign of x and at most 13 significant bits. Then
//
//     x * y = big*big + big*small + small*big, and small*small is left out:
//
// it is at most 2^-20 of the product, on average 2^-23. Of small the tensor
// core reads 11 bits, and the last one is rounded. Big is truncated: it needs
// no care near the largest number, and the parts of a product have the sign of
// the product, so that where some of them overflow they agree about the
// infinity. (What is nearer than 2^-22 of the largest number rounds to infinity
// when it is multiplied by 1 or -1.)
//
// x infinite or NaN: big is the largest finite number with the sign of x, small
// is x itself. One of the three products is then the product that IEEE asks
// for, and the others are finite or that same infinity:
//
//     inf * y    = BIG*bigy + BIG*smally + inf*bigy   inf of the sign, or NaN
//                                                     where y is 0
//     inf * inf  = BIG*BIG + BIG*inf + inf*BIG        inf of the sign
//     NaN * y    = ... + NaN*bigy                     NaN
//
// With a plain split, big = inf and small = inf - inf, every sum that meets an
// infinity would be NaN. (Where y is so small that its big part is 0, below
// 2^-136, an infinity times y gives NaN.) Subnormal numbers are split as all
// others; what is below 2^-149 is lost.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// Makes __host__ and __device__ nothing for a host compiler.
#include <cuda_runtime_api.h>

namespace gradnn::gpu::implicit_gemm {

struct split_number {
    uint32_t big; ///< bits; the 13 last of them are 0 where x is finite
    uint32_t small; ///< bits; a tensor core ignores the 13 last of them
};

__host__ __device__ inline uint32_t bits_of(float x) {
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

__host__ __device__ inline float number_of(uint32_t bits) {
    float x = 0.0F;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/// Four instructions: two of the integer unit, two of the float unit.
__host__ __device__ inline split_number split(float x) {
    constexpr uint32_t largest = 0x7f7fffffU;
    constexpr uint32_t kept = 0x7fffe000U;
    const uint32_t bits = bits_of(x);
    // The largest where x is NaN.
    const uint32_t size = bits_of(fminf(fabsf(x), number_of(largest)));
    // The sign of x, the exponent and leading bits of `size`, and zeros, as
    // one three-input operation: where `kept` is 0, `size` and x are equal
    // except for the sign.
    const uint32_t big = (size & kept) | ((size ^ bits) & ~kept);
    const float small = x - number_of(big);
    // By 2^-11.5 larger, which is half a unit of TF32's last place on average,
    // so that dropping the last bits rounds. Exact numbers stay what they are.
    constexpr float half_up = 1.000345266983F;
    return {big, bits_of(small * half_up)};
}

} // namespace gradnn::gpu::implicit_gemm
