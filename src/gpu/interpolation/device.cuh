// What resample kernels need of the device beside gpu/device/elements.cuh.
#pragma once

#include "gpu/device/async_copy.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/elements.cuh"
#include "gpu/interpolation/geometry.hpp"

namespace gradnn::gpu::resample {

/// The parts of a kernel, and what all of them know. Its specification is a template argument
/// by reference: by value all of it would be in the names of all that is instantiated.
template <const specification_of_kernel &s>
struct kernel_of {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using type = jit::stored_of<p.type>;
    using read_type = jit::stored_of<read_type_of(p)>;
    using sum_type = jit::sum_of<p.type>;

    struct columns;
    struct walk;
    struct tile;
    struct words;
};

/// Rounded once, and 0 in place of -0, whose sign would tell how many zeros a kernel added.
template <element type, int count>
__device__ __forceinline__ jit::elements<type, count> finished(
        const jit::sum_of<type> (&sums)[count]) {
    jit::sum_of<type> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i)
        values[i] = sums[i] + jit::sum_of<type>(0);
    return jit::elements<type, count>::of(values);
}

/// Calls visit(row, element) for all of a thread's sums.
template <typename Sum, int rows, int count, typename Visit>
__device__ __forceinline__ void each_of(
        const Sum (&)[rows][count], const Visit &visit) {
#pragma unroll
    for (int i = 0; i < rows; ++i)
#pragma unroll
        for (int v = 0; v < count; ++v)
            visit(i, v);
}
/// To each sum of the rows that are `fed`, a bit each, the product of a weight and its value.
template <unsigned fed = ~0U, typename Sum, int rows, int count,
        typename Values>
__device__ __forceinline__ void add_weighted(
        Sum (&to)[rows][count], Sum weight, const Values &values) {
    each_of(to, [&](int i, int v) {
        if (fed >> i & 1)
            to[i][v] = jit::multiply_add(weight, values[i][v], to[i][v]);
    });
}

/// To a position of the outer axes.
template <problem_specification p, typename Type>
__device__ __forceinline__ void move_to_outer(
        unsigned outer, const Type *&read, Type *&written) {
#pragma unroll
    for (int i = 0; i < most_outer; ++i) {
        if (p.outer[i] == 1) continue;
        const unsigned at = take_part(outer, p.outer[i]);
        read += at * p.outer_read[i];
        written += at * p.outer_write[i];
    }
}

/// A thread's sums of the positions of the walk that are open, if `two`; those not `fed` stay 0.
template <typename Sum, int rows, int count, bool two, unsigned fed = ~0U>
struct open_sums {
    Sum low[rows][count], high[rows][count];

    __device__ __forceinline__ void clear() {
        each_of(low, [&](int i, int v) { low[i][v] = high[i][v] = 0; });
    }
    template <typename Weight, typename Values>
    __device__ __forceinline__ void add(
            const step<Weight> &to, const Values &values) {
        add_weighted<fed>(low, static_cast<Sum>(to.low_weight), values);
        if (two && to.high_weight != 0)
            add_weighted<fed>(high, static_cast<Sum>(to.high_weight), values);
    }
    /// To the next position.
    __device__ __forceinline__ void shift() {
        each_of(low, [&](int i, int v) {
            low[i][v] = two ? high[i][v] : Sum(0);
            high[i][v] = 0;
        });
    }
};

} // namespace gradnn::gpu::resample
