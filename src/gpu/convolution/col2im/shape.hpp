// What the kernel of convolution.gpu_col2im is given, worked out on the host: where
// the products of a position lie. Plain arithmetic, for host and device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "gpu/device/divider.hpp"
#include "problem.hpp"

namespace gradnn::gpu::col2im {

/// The taps of a position x along an axis: k = first + j * step of the window meet
/// y = position - j * back of dst, for j < count.
struct axis_taps {
    int first = 0;
    int position = 0;
    int count = 0;
};

/// An axis. x + pad = y * stride + k * dilation, all divided by the greatest common
/// divisor of stride and dilation: u = y * step + k * back. What it leaves over of
/// x + pad meets nothing.
struct window_axis {
    int src = 1, dst = 1, window = 1;
    int pad = 0;
    int inverse = 0; ///< of back modulo step
    exact_divider divisor; ///< the greatest common divisor
    exact_divider step;
    exact_divider back;

    window_axis() = default;
    /// All sizes are at most 2^24, strides at most 2^15.
    window_axis(const detail::convolution_problem &problem, size_t axis)
        : src(static_cast<int>(problem.src.dims[axis + 2])),
          dst(static_cast<int>(problem.dst.dims[axis + 2])),
          window(static_cast<int>(problem.weights.dims[axis + 3])),
          pad(static_cast<int>(problem.pads_begin[axis])) {
        // What no second element follows may have any distance to it.
        const int64_t stride = dst == 1 ? 1 : problem.strides[axis];
        const int64_t dilation = window == 1 ? 1 : problem.dilations[axis];
        const int64_t common = dst == 1 ? dilation
                : window == 1           ? stride
                                        : std::gcd(stride, dilation);
        divisor = exact_divider(common);
        step = exact_divider(dst == 1 ? 1 : stride / common);
        back = exact_divider(window == 1 ? 1 : dilation / common);
        const int64_t modulus = step.by;
        const int64_t wanted = 1 % modulus;
        while (inverse * int64_t {back.by} % modulus != wanted)
            ++inverse;
    }

    __host__ __device__ axis_taps taps_of(int x) const {
        const int shifted = x + pad;
        if (shifted < 0) return {};
        const auto whole = static_cast<uint32_t>(shifted);
        const uint32_t u = divisor.quotient(whole);
        if (u * divisor.by != whole) return {};
        // k * back = u modulo step.
        const uint32_t rest = u - step.quotient(u) * step.by;
        const uint32_t product = rest * static_cast<uint32_t>(inverse);
        const uint32_t k = product - step.quotient(product) * step.by;
        const int64_t met = int64_t {u} - int64_t {k} * back.by;
        if (met < 0) return {};
        axis_taps taps;
        taps.first = static_cast<int>(k);
        taps.position = static_cast<int>(
                step.quotient(static_cast<uint32_t>(met)));
        if (taps.position >= dst) {
            const int skipped = static_cast<int>(back.quotient(
                                        static_cast<uint32_t>(
                                                taps.position - dst)))
                    + 1;
            if (int64_t {skipped} * step.by >= window) return {};
            taps.first += skipped * static_cast<int>(step.by);
            taps.position -= skipped * static_cast<int>(back.by);
        }
        if (taps.first >= window || taps.position < 0) return {};
        const auto left = static_cast<uint32_t>(window - 1 - taps.first);
        const auto above = static_cast<uint32_t>(taps.position);
        const uint32_t by_window = step.quotient(left);
        const uint32_t by_dst = back.quotient(above);
        taps.count = static_cast<int>(by_window < by_dst ? by_window : by_dst)
                + 1;
        return taps;
    }
};

/// Threads have so many channels of a position each: as many as divide all, of one to
/// four. The first index counts fastest.
struct problem_shape {
    window_axis axes[3];
    int channels = 1;
    int pitch = 1; ///< products of a position of dst, filled-up ones too
    int64_t threads = 0;
    exact_divider groups; ///< of channels
    exact_divider src[3];
    int64_t strides[5] {}; ///< of diff_src: N, C, D, H, W
};

/// Channels that a thread has.
constexpr int held_channels(int64_t channels, int64_t sum_bytes) {
    if (channels == 3) return 3;
    int held = static_cast<int>(16 / sum_bytes);
    while (channels % held != 0)
        held /= 2;
    return held;
}

} // namespace gradnn::gpu::col2im
