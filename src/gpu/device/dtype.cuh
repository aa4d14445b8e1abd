// Element types on the device: conversion, vectors of elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/device/rounding.hpp"

namespace gradnn::gpu {

/// What sums of a type are kept in.
template <typename Type>
using sum_of = std::conditional_t<std::is_same_v<Type, double>, double, float>;

template <typename Type>
__device__ __forceinline__ sum_of<Type> widen(Type value) {
    return static_cast<sum_of<Type>>(value);
}
/// Rounds once, to nearest even.
template <typename Type, typename Sum>
__device__ __forceinline__ Type narrow(Sum value) {
    return static_cast<Type>(value);
}

template <typename Sum>
__device__ __forceinline__ bool is_finite(Sum value) {
    return value - value == Sum(0);
}

/// So many bytes, loaded and stored by one instruction.
template <int bytes>
using word_of = std::conditional_t<bytes == 2, unsigned short,
        std::conditional_t<bytes == 4, unsigned int,
                std::conditional_t<bytes == 8, uint2, uint4>>>;

/// `count` neighbouring elements in one word.
template <typename Type, int count>
struct pack {
    using word_type = word_of<static_cast<int>(sizeof(Type)) * count>;
    static_assert(sizeof(word_type) == sizeof(Type) * count);
    word_type bits;

    __device__ static pack load(const Type *from) {
        return {*reinterpret_cast<const word_type *>(from)};
    }
    /// From memory that nothing writes while the kernel runs. In kernels that
    /// start early (early_start.cuh) only from a plan's own tables.
    __device__ static pack load_constant(const Type *from) {
        return {__ldg(reinterpret_cast<const word_type *>(from))};
    }
    __device__ void store(Type *to) const {
        *reinterpret_cast<word_type *>(to) = bits;
    }
    /// To global memory, and the first to leave the caches. Gradients are
    /// written once: measured on an H200, up to a third more memory speed.
    __device__ void stream(Type *to) const {
        __stcs(reinterpret_cast<word_type *>(to), bits);
    }

    __device__ void unpack(sum_of<Type> (&values)[count]) const {
        if constexpr (std::is_same_v<Type, __nv_bfloat16> && count > 1) {
            // A bf16 is the upper half of a float: one shift or one mask.
            unsigned int pairs[count / 2];
            memcpy(pairs, &bits, sizeof pairs);
#pragma unroll
            for (int i = 0; i < count; ++i)
                values[i] = __uint_as_float(i % 2 == 0
                                ? pairs[i / 2] << 16
                                : pairs[i / 2] & 0xffff0000U);
        } else {
            Type elements[count];
            memcpy(elements, &bits, sizeof elements);
#pragma unroll
            for (int i = 0; i < count; ++i)
                values[i] = widen(elements[i]);
        }
    }

    __device__ static pack of(const sum_of<Type> (&values)[count]) {
        Type narrowed[count];
#pragma unroll
        for (int i = 0; i < count; ++i)
            narrowed[i] = narrow<Type>(values[i]);
        pack packed;
        memcpy(&packed.bits, narrowed, sizeof narrowed);
        return packed;
    }
};

/// Elements in 16 bytes.
template <typename Type>
constexpr int elements_of_16_bytes = static_cast<int>(16 / sizeof(Type));

/// `count` values of f32 or f64, rounded up to whole 16 bytes, by loads of 16 bytes;
/// `values` has room for them.
template <int count, typename Sum>
__device__ __forceinline__ void load_values(Sum *values, const Sum *from) {
    constexpr int each = elements_of_16_bytes<Sum>;
#pragma unroll
    for (int i = 0; i < count; i += each) {
        const auto bits = pack<Sum, each>::load(from + i).bits;
        memcpy(values + i, &bits, sizeof bits);
    }
}

} // namespace gradnn::gpu
