// What resample kernels need of the device beside gpu/device/elements.cuh.
#pragma once

#include "gpu/device/async_copy.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/elements.cuh"
#include "gpu/interpolation/resample/geometry.hpp"
#include "gpu/interpolation/resample/tables.hpp"

namespace gradnn::gpu::resample {

template <element type>
using storage = jit::stored_of<type>;
template <element type>
using sum = jit::sum_of<type>;
/// A kernel's specification is a template argument by reference: by value all of it would be
/// in the names of all that is instantiated. Its geometry is evaluated once.
template <const specification_of_kernel &s>
constexpr geometry geometry_for = geometry_of(s);

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

} // namespace gradnn::gpu::resample
