// Gradient of src with one to four channels: what its kernels share on the
// device: products of a row, an element from the definition, and the choice of a
// template.
#pragma once

#include "gpu/convolution/few_channels/shape.hpp"
#include "gpu/device/constants.hpp"

namespace gradnn::gpu::few_channels {

/// One element from the definition. Channel i, position x (D, H, W).
__device__ __noinline__ inline float sum_again(const problem_shape &shape,
        const float *image, const float *weights, int i, int d, int h, int w) {
    float sum = 0;
    const int position[3] = {d, h, w};
    for (int o = 0; o < shape.outputs; ++o)
        for (int kd = 0; kd < shape.axes[0].kernel; ++kd)
            for (int kh = 0; kh < shape.axes[1].kernel; ++kh)
                for (int kw = 0; kw < shape.axes[2].kernel; ++kw) {
                    const int tap[3] = {kd, kh, kw};
                    int64_t from = o * shape.dst_strides[1];
                    bool meets = true;
                    for (int axis = 0; axis < 3; ++axis) {
                        const window_axis &along = shape.axes[axis];
                        const int reached
                                = position[axis] + along.pad - tap[axis];
                        const int y = reached / along.stride;
                        meets = meets && reached >= 0
                                && y * along.stride == reached && y < along.dst;
                        from += y * shape.dst_strides[axis + 2];
                    }
                    if (!meets) continue;
                    sum = __fmaf_rn(weights[o * shape.weights_strides[0]
                                            + i * shape.weights_strides[1]
                                            + kd * shape.weights_strides[2]
                                            + kh * shape.weights_strides[3]
                                            + kw * shape.weights_strides[4]],
                            image[from], sum);
                }
    return sum;
}

__device__ __forceinline__ void load_four(float *to, const float *from) {
    const float4 four = *reinterpret_cast<const float4 *>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

/// Adds to a thread's sums, of `cells` neighbouring v with all phases, the products of
/// a row of diff_dst, as it is staged, and its weights. The window's first cells begin
/// at `near`, the others, which may lie beyond a gap, as if at `far`.
template <int steps, int stride, int channels, int cells>
__device__ __forceinline__ void add_row(float (&sums)[channels][cells * stride],
        const float *row, int near, int far, const float *weights) {
    constexpr int taps = tap_floats(steps, stride, channels);
    constexpr int window = (cells + steps - 1 + 3) / 4; // of 16 bytes
    float values[window * 4];
#pragma unroll
    for (int v = 0; v < window; ++v)
        load_four(values + 4 * v, row + (v * 4 < cells ? near : far) + v * 4);
    float weight[taps];
#pragma unroll
    for (int k = 0; k < taps; k += 4)
        load_four(weight + k, weights + k);
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
        for (int s = 0; s < stride; ++s)
#pragma unroll
            for (int i = 0; i < channels; ++i)
#pragma unroll
                for (int c = 0; c < cells; ++c)
                    sums[i][c * stride + s] = __fmaf_rn(
                            weight[(k * stride + s) * channels + i],
                            values[c + steps - 1 - k], sums[i][c * stride + s]);
}

/// What body.template operator()<steps, stride, channels>() returns, for those that
/// few_channels.cpp chose.
template <typename Body>
auto with_constants(const problem_shape &shape, const Body &body) {
    const int steps = shape.steps;
    const int channels = shape.held_channels;
    const one_of<4, 3, 1> any_channels {channels};
    switch (shape.axes[2].stride) {
        case 8:
            return with_chosen(body, one_of<2> {steps}, one_of<8> {8},
                    one_of<1> {channels});
        case 5:
            return with_chosen(body, one_of<2> {steps}, one_of<5> {5},
                    one_of<3, 1> {channels});
        case 4:
            return with_chosen(
                    body, one_of<3, 2> {steps}, one_of<4> {4}, any_channels);
        case 2:
            return with_chosen(
                    body, one_of<4, 3, 2> {steps}, one_of<2> {2}, any_channels);
        default:
            return with_chosen(
                    body, one_of<3, 5, 7> {steps}, one_of<1> {1}, any_channels);
    }
}

} // namespace gradnn::gpu::few_channels
