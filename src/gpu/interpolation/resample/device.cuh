// What resample kernels need of the device beside gpu/jit/device.cuh.
#pragma once

#include "gpu/device/async_copy.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/resample/geometry.hpp"
#include "gpu/interpolation/resample/tables.hpp"
#include "gpu/jit/device.cuh"

namespace gradnn::gpu::resample {

template <element type>
using storage = jit::stored_of<type>;
template <element type>
using sum = jit::sum_of<type>;
using jit::multiply_add;
/// Of what is read.
constexpr element read_type_of(const problem_specification &p) {
    return !p.reads_sums             ? p.type
            : p.type == element::f64 ? element::f64
                                     : element::f32;
}

/// Rounded once, and 0 in place of -0: where all terms are 0 the sign would tell how many a
/// kernel added.
template <element type, int count>
__device__ __forceinline__ jit::elements<type, count> finished(
        const sum<type> (&sums)[count]) {
    sum<type> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i)
        values[i] = sums[i] + sum<type>(0);
    return jit::elements<type, count>::of(values);
}

/// The same place of the other tensor of a fused op.
template <typename Type>
__device__ __forceinline__ const Type *other_of(
        const Type *at, long long bytes) {
    return reinterpret_cast<const Type *>(
            reinterpret_cast<const char *>(at) + bytes);
}
/// As elementwise.cu computes it.
template <element type, int count>
__device__ __forceinline__ jit::elements<type, count> computed(fused_op op,
        const jit::elements<type, count> &value,
        const jit::elements<type, count> &other) {
    sum<type> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i)
        values[i] = op == fused_op::add ? value[i] + other[i]
                : other[i] > 0          ? value[i]
                                        : sum<type>(0);
    return jit::elements<type, count>::of(values);
}

/// Rows of a thread that are on their way, in places of shared memory that no other thread
/// reads. (Loads to registers share few scoreboards: a thread that waits for the oldest waits
/// for the youngest.)
template <typename Unit, int units, int threads>
struct rows_on_their_way {
    using stored = typename Unit::stored;

    Unit *own;

    /// What is never copied is 0.
    __device__ __forceinline__ rows_on_their_way(char *shared, int rows)
        : own(reinterpret_cast<Unit *>(shared) + threadIdx.x) {
#pragma unroll 1
        for (int i = 0; i < rows * units; ++i)
            Unit::zeros().store(reinterpret_cast<stored *>(own + i * threads));
    }
    __device__ __forceinline__ void copy(
            int row, int unit, bool wanted, const stored *from) const {
        copy_async_if<sizeof(Unit)>(wanted, place(row, unit), from);
    }
    __device__ __forceinline__ stored *place(int row, int unit) const {
        return reinterpret_cast<stored *>(own + (row * units + unit) * threads);
    }
    __device__ __forceinline__ void take(int row, Unit (&to)[units]) const {
#pragma unroll
        for (int u = 0; u < units; ++u)
            to[u] = Unit::load(place(row, u));
    }
};

} // namespace gradnn::gpu::resample
