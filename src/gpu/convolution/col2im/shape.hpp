// Where the products of a position of src lie, worked out on the host for the kernel
// that adds them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gpu/device/divider.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::col2im {

/// The taps of a position x along an axis: k = first + j * step of the window meet
/// y = position - j * back of dst, for j < count.
struct axis_taps {
    int64_t first = 0;
    int64_t position = 0;
    int64_t count = 0;
};

/// An axis. x + pad = y * stride + k * dilation, all divided by the greatest common
/// divisor of stride and dilation: u = y * step + k * back. Where that leaves a rest of
/// x + pad, x meets nothing.
class window_axis {
public:
    window_axis(const detail::convolution_problem &problem, size_t axis)
        : src(problem.src.dims[axis + 2]),
          dst(problem.dst.dims[axis + 2]),
          window(problem.weights.dims[axis + 3]),
          pad_(problem.pads_begin[axis]) {
        const int64_t stride = problem.strides[axis];
        const int64_t dilation = problem.dilations[axis];
        divisor_ = std::gcd(stride, dilation);
        step = stride / divisor_;
        back = dilation / divisor_;
        // Of back modulo step.
        while (inverse_ * back % step != 1 % step)
            ++inverse_;
    }

    axis_taps taps_of(int64_t x) const {
        const int64_t shifted = x + pad_;
        if (shifted < 0 || shifted % divisor_ != 0) return {};
        const int64_t u = shifted / divisor_;
        axis_taps taps;
        taps.first
                = u % step * inverse_ % step; // the least that leaves no rest
        if (taps.first * back > u) return {};
        taps.position = (u - taps.first * back) / step;
        if (taps.position >= dst) {
            const int64_t skipped = (taps.position - dst) / back + 1;
            taps.first += skipped * step;
            taps.position -= skipped * back;
        }
        if (taps.first >= window || taps.position < 0) return {};
        taps.count = std::min((window - 1 - taps.first) / step,
                             taps.position / back)
                + 1;
        return taps;
    }

    int64_t src, dst, window;
    int64_t step = 1, back = 1;

private:
    int64_t pad_;
    int64_t divisor_ = 1;
    int64_t inverse_ = 0;
};

/// The same in the memory of products: the first one's distance, in elements, from
/// where an image begins, with those along the other axes to be added.
struct product_taps {
    int32_t offset = 0;
    int32_t count = 0;
};

/// Threads have one to four channels of a position each: as many as divide all.
struct problem_shape {
    int channels = 1;
    int32_t next
            [3] {}; ///< from a tap to the next one along D, H, W, in elements
    int table[3] {}; ///< where the axis' positions begin among all product_taps
    int64_t image = 0; ///< products of an image
    int64_t threads_of_image = 0;
    exact_divider groups; ///< of channels
    exact_divider src[3];
    int64_t strides[5] {}; ///< of diff_src: N, C, D, H, W
};

/// Channels that a thread has.
constexpr int held_channels(int64_t channels, int64_t sum_bytes) {
    if (channels == 3) return 3;
    auto held = static_cast<int>(16 / sum_bytes);
    while (channels % held != 0)
        held /= 2;
    return held;
}

/// Whether the sums are written where the caller's tensor is: channels last, or so few
/// that a thread has all of a position.
bool writes_in_place(const detail::tensor_view &src);

/// `pitch` products belong to a position of dst, filled-up ones too; `out` is where the
/// kernel writes diff_src. Fills `taps`, an entry a position of each axis.
problem_shape shape_of(const detail::convolution_problem &problem,
        int64_t pitch, const detail::tensor_view &out,
        std::vector<product_taps> &taps);

} // namespace gradnn::gpu::col2im
