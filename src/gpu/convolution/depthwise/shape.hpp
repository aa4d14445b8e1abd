// Depthwise convolution on the GPU: the problem, as all its kernels see it. Each
// family of kernels has a folder of its own: cut.hpp says how their work is cut.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace gradnn::detail {
struct convolution_problem;
}

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

/// n / by, as the upper half of 2 * n * magic, for n * by below 2^31.
struct small_divider {
    uint32_t magic = 0x80000001U;

    small_divider() = default;
    __host__ __device__ explicit small_divider(int by)
        : magic(0x80000000U / static_cast<uint32_t>(by) + 1) {}
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

// In shape.cpp.
problem_shape shape_of(const detail::convolution_problem &);
/// A window of 3x3, 5x5 or 7x7 with the same stride along H and W and dilations of
/// 1, in each depth alone.
bool window_is_usual(const problem_shape &);
/// Positions after the last of read that the last written one meets.
int positions_after(const window_axis &, bool to_src);
/// A window of 5x5 or 7x7 on planes (one depth), with strides and dilations of 1 and
/// short pads.
bool window_slides(const problem_shape &);
/// A window of one point along D and H, none of them outside, with a stride and a
/// dilation of 1 along W.
bool window_is_a_row(const problem_shape &);
/// Whether on either side fewer positions outside are met than there are taps.
bool pads_are_short(const window_axis &, bool to_src);
/// NCX: whether threads may load and store two columns at a time, of tensors that
/// begin at multiples of two elements, where the padding along W is to differ from
/// usual_pad by a multiple of `pads`.
bool rows_are_wide(const problem_shape &, int pads = 1);
/// NCX: whether the planes of both tensors, of which each has less than 2^31
/// elements, follow one another, and their rows.
bool planes_without_gaps(const problem_shape &);

struct problem_facts; // plan.hpp
struct launch_facts; // launch.hpp

} // namespace gradnn::gpu::depthwise
