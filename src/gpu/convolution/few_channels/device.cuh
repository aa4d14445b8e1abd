// Gradient of src with one to four channels: what its kernels share on the
// device: an element from the definition, and the choice of a template.
#pragma once

#include "gpu/convolution/few_channels/shape.hpp"

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

/// Calls body.template operator()<steps, stride, channels>() for those that
/// few_channels.cpp chose.
template <int stride, int channels, typename Body>
void with_steps(int steps, const Body &body) {
    if constexpr (stride == 1) {
        if (steps == 3) return body.template operator()<3, 1, channels>();
        if (steps == 5) return body.template operator()<5, 1, channels>();
        return body.template operator()<7, 1, channels>();
    } else {
        if constexpr (stride == 2)
            if (steps == 4) return body.template operator()<4, 2, channels>();
        if constexpr (stride <= 4)
            if (steps == 3)
                return body.template operator()<3, stride, channels>();
        return body.template operator()<2, stride, channels>();
    }
}

template <int stride, typename Body>
void with_channels(const problem_shape &shape, const Body &body) {
    if constexpr (stride <= 4)
        if (shape.held_channels == 4)
            return with_steps<stride, 4>(shape.steps, body);
    if constexpr (stride <= 5)
        if (shape.held_channels == 3)
            return with_steps<stride, 3>(shape.steps, body);
    with_steps<stride, 1>(shape.steps, body);
}

template <typename Body>
void with_constants(const problem_shape &shape, const Body &body) {
    switch (shape.axes[2].stride) {
        case 8: return with_channels<8>(shape, body);
        case 5: return with_channels<5>(shape, body);
        case 4: return with_channels<4>(shape, body);
        case 2: return with_channels<2>(shape, body);
        default: return with_channels<1>(shape, body);
    }
}

} // namespace gradnn::gpu::few_channels
