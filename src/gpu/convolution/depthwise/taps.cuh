// What the depthwise kernels share on the device: which taps a position has,
// the sum that skips what lies outside, and the choice of a template.
#pragma once

#include <cstdint>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/device/constants.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::depthwise {

constexpr int threads_of_block = 256;

__device__ __forceinline__ int divide(uint32_t n, const small_divider &by) {
    return static_cast<int>(__umulhi(2 * n, by.magic));
}

/// Taps first, first + step, ... < end of one axis that reach inside; `first`
/// reads position `from`, and each further one `move` on.
struct axis_taps {
    int first = 0;
    int end = 0;
    int step = 1;
    int from = 0;
    int move = 0;
};

__device__ __forceinline__ axis_taps taps_of(
        const window_axis &axis, bool to_src, int position) {
    axis_taps taps;
    if (!to_src) {
        const int start = position * axis.stride - axis.pad;
        const int inside = axis.read - start;
        taps.from = start;
        taps.move = axis.dilation;
        if (start < 0) {
            taps.first = (axis.dilation - 1 - start) / axis.dilation;
            taps.from += taps.first * axis.dilation;
        }
        taps.end = axis.kernel;
        if (inside <= (axis.kernel - 1) * axis.dilation)
            taps.end = inside <= 0
                    ? 0
                    : (inside + axis.dilation - 1) / axis.dilation;
        return taps;
    }
    // y = (position + pad - k * dilation) / stride, where that is whole.
    const int start = position + axis.pad;
    const int beyond = start - (axis.read - 1) * axis.stride;
    if (start < 0) return taps;
    taps.end = axis.kernel;
    if (start < (axis.kernel - 1) * axis.dilation)
        taps.end = start / axis.dilation + 1;
    if (beyond > 0) taps.first = (beyond + axis.dilation - 1) / axis.dilation;
    taps.from = start - taps.first * axis.dilation;
    taps.move = -axis.dilation;
    if (axis.stride == 1) return taps;
    while (taps.first < taps.end && taps.from % axis.stride != 0) {
        ++taps.first;
        taps.from -= axis.dilation;
    }
    if (taps.first >= taps.end) return taps;
    // Further solutions follow every stride / gcd(stride, dilation) taps.
    taps.from /= axis.stride;
    while (taps.step * axis.dilation % axis.stride != 0)
        ++taps.step;
    taps.move = -taps.step * axis.dilation / axis.stride;
    return taps;
}

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
        int64_t channel, int d, int h, int w) {
    const axis_taps of[3] = {taps_of(shape.axes[0], shape.to_src, d),
            taps_of(shape.axes[1], shape.to_src, h),
            taps_of(shape.axes[2], shape.to_src, w)};
    read += image * shape.read_strides[0] + channel * shape.read_strides[1];
    weights += channel * shape.weights_strides[0];
    sum_of<Type> total = 0;
    int at_d = of[0].from;
    for (int kd = of[0].first; kd < of[0].end; kd += of[0].step) {
        int at_h = of[1].from;
        for (int kh = of[1].first; kh < of[1].end; kh += of[1].step) {
            int at_w = of[2].from;
            for (int kw = of[2].first; kw < of[2].end; kw += of[2].step) {
                total += widen(read[at_d * shape.read_strides[2]
                                 + at_h * shape.read_strides[3]
                                 + at_w * shape.read_strides[4]])
                        * widen(weights[kd * shape.weights_strides[1]
                                + kh * shape.weights_strides[2]
                                + kw * shape.weights_strides[3]]);
                at_w += of[2].move;
            }
            at_h += of[1].move;
        }
        at_d += of[0].move;
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
        int64_t channel, int d, int h, int w) {
    const sum_of<Type> value = widen(element);
    if (value != value)
        element = narrow<Type>(
                exact_element(read, weights, shape, image, channel, d, h, w));
}

} // namespace gradnn::gpu::depthwise
