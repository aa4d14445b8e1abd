// What the depthwise kernels share on the device: the sum that skips what lies outside.
// Windows have strides and dilations of 1, and planes one depth.
#pragma once

#include <cstdint>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::depthwise {

/// Zeros in so many bytes of shared memory, by all threads of a block.
__device__ __forceinline__ void clear_shared(uint4 *shared, size_t bytes) {
    for (auto i = static_cast<int>(threadIdx.x);
            i * 16 < static_cast<int>(bytes); i += static_cast<int>(blockDim.x))
        shared[i] = uint4 {};
    __syncthreads();
}

/// sums + 0 * bits, of two 16-bit elements each: not zero any more once one of them
/// was infinite or NaN.
template <typename Type>
__device__ __forceinline__ uint32_t add_zero_times(
        uint32_t bits, uint32_t sums) {
    using pair = std::conditional_t<std::is_same_v<Type, __half>, __half2,
            __nv_bfloat162>;
    const uint32_t zeros = 0;
    const pair sum = __hfma2(reinterpret_cast<const pair &>(bits),
            reinterpret_cast<const pair &>(zeros),
            reinterpret_cast<const pair &>(sums));
    return reinterpret_cast<const uint32_t &>(sum);
}

/// One element of written, tap by tap, and none that is outside.
template <typename Type>
__device__ __noinline__ sum_of<Type> exact_element(const Type *read,
        const Type *weights, const problem_shape &shape, int64_t image,
        int64_t channel, int h, int w) {
    const auto &[deep, down, along] = shape.axes;
    const auto position_of = [&](const window_axis &axis, int x, int tap) {
        return shape.to_src ? x + axis.pad - tap : x - axis.pad + tap;
    };
    read += image * shape.read_strides[0] + channel * shape.read_strides[1];
    weights += channel * shape.weights_strides[0];
    sum_of<Type> total = 0;
    for (int kh = 0; kh < down.kernel; ++kh) {
        const int row = position_of(down, h, kh);
        if (!is_inside(row, down.read)) continue;
        for (int kw = 0; kw < along.kernel; ++kw) {
            const int column = position_of(along, w, kw);
            if (!is_inside(column, along.read)) continue;
            total += widen(read[row * shape.read_strides[3]
                             + column * shape.read_strides[4]])
                    * widen(weights[kh * shape.weights_strides[2]
                            + kw * shape.weights_strides[3]]);
        }
    }
    return total;
}

/// Zeros stand for what is outside, and times an infinity they are NaN. So a
/// thread with a sum that is not finite takes those of its own that are NaN again
/// from the definition.
/// Others stay as they are: their bits may not depend on what else their thread
/// has, which is what made it look.
template <typename Type>
__device__ __forceinline__ void take_again(Type &element, const Type *read,
        const Type *weights, const problem_shape &shape, int64_t image,
        int64_t channel, int h, int w) {
    const sum_of<Type> value = widen(element);
    if (value != value)
        element = narrow<Type>(
                exact_element(read, weights, shape, image, channel, h, w));
}

} // namespace gradnn::gpu::depthwise
