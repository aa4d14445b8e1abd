// Depthwise convolution on the GPU: the problem, as all its kernels see it. Each
// family of kernels has a folder of its own: cut.hpp says how their work is cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace gradnn::gpu::depthwise {

/// One spatial axis: read position = written position * stride - pad +
/// k * dilation; with `to_src` (below) the other way round.
struct window_axis {
    int read = 1;
    int written = 1;
    int kernel = 1;
    int stride = 1;
    int dilation = 1;
    int pad = 0;
};

/// `read` and `written` are src and dst, with `to_src` dst and src. Kernels of weights
/// read both.
struct problem_shape {
    window_axis axes[3];
    int64_t images = 1;
    int64_t channels = 1;
    int64_t read_strides[5] = {}; // N, C, D, H, W
    int64_t written_strides[5] = {};
    int64_t weights_strides[4] = {}; // C, D, H, W
    bool to_src = false; ///< backward_data
};

/// The padding that keeps the size of a plane.
__host__ __device__ constexpr int usual_pad(int size) {
    return (size - 1) / 2;
}
/// Taps before the written position, along one axis.
__host__ __device__ constexpr int taps_before(
        const window_axis &axis, bool to_src) {
    return to_src ? axis.kernel - 1 - axis.pad : axis.pad;
}

} // namespace gradnn::gpu::depthwise
