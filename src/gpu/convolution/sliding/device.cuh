// What sliding kernels need of the device beside gpu/device/elements.cuh.
#pragma once

#include "gpu/convolution/sliding/specification.hpp"
#include "gpu/device/early_start.cuh"
#include "gpu/device/elements.cuh"

namespace gradnn::gpu::sliding {

/// What follows from a specification.
template <const kernel_specification &s, typename Geometry>
struct geometry_for {
    static constexpr Geometry g = Geometry::of(s);
};

/// Calls body with a number below each count, the last fastest, in loops that are unrolled.
template <int count, int... others, typename Body, typename... Numbers>
__device__ __forceinline__ void for_each(const Body &body, Numbers... before) {
#pragma unroll
    for (int i = 0; i < count; ++i)
        if constexpr (sizeof...(others) > 0)
            for_each<others...>(body, before..., i);
        else
            body(before..., i);
}

/// The last digit of a number, of so many values, which leaves the others.
template <typename Number>
__device__ __forceinline__ int digit_of(Number &rest, int count) {
    const int digit = static_cast<int>(rest % count);
    rest /= count;
    return digit;
}

template <element type>
__device__ __forceinline__ sum_of<type> widen(stored_of<type> value) {
    return elements<type, 1> {{value}}[0];
}
/// Zeros where it is not inside. No loads that promise that nothing writes there: the kernel
/// may be resident before what it reads is written.
template <element type, int count>
__device__ __forceinline__ void load_into(
        elements<type, count> &to, const stored_of<type> *from, bool inside) {
    using vector = elements<type, count>;
    to = inside ? vector::load(from) : vector::zeros();
}

/// Whether one of two is NaN, in two comparisons.
template <typename Sum>
__device__ __forceinline__ bool either_is_nan(Sum a, Sum b) {
    return !(a <= b) & !(a > b);
}

/// So many elements, by all threads of a block, which then wait. `from` is at a multiple of
/// 16 bytes; bulk copies take compute capability 9.0.
template <bool bulk, typename Type>
__device__ __forceinline__ void copy_to_shared(
        Type *to, const Type *from, int count, int threads) {
    constexpr int vector = 16 / static_cast<int>(sizeof(Type));
    const int whole = count / vector * vector;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < count - whole) to[whole + thread] = from[whole + thread];
    if constexpr (bulk) {
        copy_barrier *const barrier = shared_barrier();
        if (thread == 0) {
            begin_barrier(barrier);
            expect_copies(barrier, whole * sizeof(Type));
            if (whole > 0) copy_bulk(to, from, whole * sizeof(Type), barrier);
        }
        __syncthreads();
        wait_for_copies(barrier, 0);
    } else {
        for (int i = thread * vector; i < whole; i += threads * vector)
            *reinterpret_cast<uint4 *>(to + i)
                    = *reinterpret_cast<const uint4 *>(from + i);
        __syncthreads();
    }
}

/// A result that lies in shared memory, by the ops behind the problem.
template <problem_specification p>
__device__ __forceinline__ void write_result(stored_of<p.type> *to,
        const stored_of<p.type> *from, const fused_places &others) {
    with_epilogue(p, elements<p.type, 1>::load(from), to, others).store(to);
}
/// So many of them, by all threads of a block; both are at the same place in a vector of 16
/// bytes.
template <problem_specification p>
__device__ __forceinline__ void write_from_shared(stored_of<p.type> *to,
        const stored_of<p.type> *from, int count, int threads,
        const fused_places &others) {
    constexpr int vector = 16 / bytes_of(p.type);
    const int thread = static_cast<int>(threadIdx.x);
    constexpr int ops = epilogues_of(p), together = ops > 0 ? 8 / ops : 1;
    if constexpr (ops > 0 && p.alignment < 16) {
        // Those of other tensors need not be.
        for (int i = thread; i < count; i += threads)
            write_result<p>(to + i, from + i, others);
        return;
    }
    const int past = static_cast<int>(
            reinterpret_cast<uintptr_t>(to) % 16 / bytes_of(p.type));
    const int head = least(count, (vector - past) % vector);
    const int whole = (count - head) / vector;
    if (thread < head) write_result<p>(to + thread, from + thread, others);
    // With ops, some vectors of the other tensors are on their way together.
    using unit = elements<p.type, vector>;
    for (int i = thread; i < whole; i += together * threads) {
        unit asked[together][most(1, ops)];
        for_each<together, ops>([&](int k, int e) {
            if (i + k * threads < whole)
                asked[k][e] = unit::load(
                        other_of(to + head + (i + k * threads) * vector,
                                others.epilogue[e]));
        });
        for_each<together>([&](int k) {
            const int at = head + (i + k * threads) * vector;
            if (i + k * threads >= whole) return;
            auto made = unit::load(from + at);
#pragma unroll
            for (int e = 0; e < ops; ++e)
                made = computed(p.epilogue[e], made, asked[k][e]);
            if constexpr (ops > 0)
                made.stream(to + at);
            else
                made.store_global(to + at);
        });
    }
    const int rest = head + whole * vector + thread;
    if (rest < count) write_result<p>(to + rest, from + rest, others);
}

} // namespace gradnn::gpu::sliding
