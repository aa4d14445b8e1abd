// Planes on their way to shared memory and back: elements that follow one another.
#pragma once

#include <cstddef>

#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/async_copy.cuh"

namespace gradnn::gpu::depthwise {

/// `count` elements that follow one another, shared between a block's threads:
/// single ones up to an address of a multiple of 16 bytes, vectors, single ones.
template <typename Type>
struct stretch {
    static constexpr int each = static_cast<int>(16 / sizeof(Type));
    int head;
    int vectors;
    int count;

    __device__ stretch(const Type *global, int elements) : count(elements) {
        const auto past = static_cast<int>(
                (reinterpret_cast<uintptr_t>(global) & 15U) / sizeof(Type));
        head = min(count, (each - past) % each);
        vectors = (count - head) / each;
    }
    /// Calls vector(i) and one(i) for elements i that vectors and that single
    /// elements begin with: the share of a thread.
    template <typename Vector, typename One>
    __device__ __forceinline__ void share(
            const Vector &vector, const One &one) const {
        const auto thread = static_cast<int>(threadIdx.x);
        const auto threads = static_cast<int>(blockDim.x);
        for (int v = thread; v < vectors; v += threads)
            vector(head + v * each);
        const int tail = head + vectors * each;
        const int single = head + count - tail;
        for (int i = thread; i < single; i += threads)
            one(i < head ? i : i - head + tail);
    }
};

/// To be waited for by wait_for_copies<0> and __syncthreads.
template <typename Type>
__device__ __forceinline__ void copy_in(Type *to, const Type *from, int count) {
    stretch<Type>(from, count)
            .share([&](int i) { copy_async_past_l1(to + i, from + i); },
                    [&](int i) { to[i] = from[i]; });
    commit_copies();
}

template <typename Type>
__device__ __forceinline__ void copy_out(
        Type *to, const Type *from, int count) {
    using vector = pack<Type, stretch<Type>::each>;
    stretch<Type>(to, count).share(
            [&](int i) { vector::load(from + i).stream(to + i); },
            [&](int i) { to[i] = from[i]; });
}

/// Rows of read that a block holds, and of written: [begin, end) of each plane.
struct held_rows {
    int begin;
    int end;
};

} // namespace gradnn::gpu::depthwise
