// The windows of a convolution along one axis, and which src cuDNN sees there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::gpu::cudnn {

/// Where cuDNN's src begins and how long it is along one axis.
struct axis_window {
    int64_t size = 1;
    int64_t shift = 0; ///< index of the caller's element 0 in it
    int64_t pad_begin = 0;
    int64_t pad_end = 0;
};

struct axis_shape {
    int64_t src, weights, dst, stride, dilation, pad_begin;

    int64_t window() const { return (weights - 1) * dilation + 1; }
    /// src with its padding must be at least so long.
    int64_t span() const { return (dst - 1) * stride + window(); }
};

inline axis_shape shape_of(const detail::convolution_problem &p, size_t axis) {
    return {p.src.dims[2 + axis], p.weights.dims[3 + axis],
            p.dst.dims[2 + axis], p.strides[axis], p.dilations[axis],
            p.pads_begin[axis]};
}

/// src with equal pads on both sides: the caller's own where that can be (what
/// lies beyond the last window is free up to stride - 1 elements), else src
/// extended or cropped. cuDNN 9.14 accepts pads that differ and gives wrong
/// gradients for some of them.
inline axis_window even_window(const axis_shape &axis) {
    const int64_t end = axis.span() - axis.src - axis.pad_begin;
    if (axis.pad_begin >= 0 && axis.pad_begin >= end
            && axis.pad_begin < end + axis.stride)
        return {axis.src, 0, axis.pad_begin, axis.pad_begin};
    int64_t pad = std::max<int64_t>(0, std::min(axis.pad_begin, end));
    if (axis.span() - 2 * pad < 1) pad = 0;
    return {axis.span() - 2 * pad, axis.pad_begin - pad, pad, pad};
}

} // namespace gradnn::gpu::cudnn
