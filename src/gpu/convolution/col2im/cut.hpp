// How convolution.gpu_col2im is cut: into how many images at a time, the tiles of their
// product, and which products a position of src meets. Plain host arithmetic (cut.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/device/rounding.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu::col2im {

/// An H100's, as the estimates of col2im and of implicit_gemm are: its clock, the bytes that
/// memory moves in a cycle, and the cycles of what is launched before and after.
constexpr double cycles_of_us = 1.7e3;
constexpr double memory_rate = 1765.0;
constexpr double first_launches = 22e3;

/// Of the workspace, for the products.
inline size_t products_bytes(const implicit_gemm::dense_problem &product) {
    return round_up(product.sums_bytes(), staged_alignment);
}

struct work_cut {
    implicit_gemm::dense_mapping mapping; ///< of all images' product
    int64_t images = 1; ///< at a time; the last ones may be fewer
    implicit_gemm::tile_choice choice; ///< for so many images
    implicit_gemm::tile_choice last_choice; ///< for the last ones
    double cycles = 0.0; ///< as estimated, with copies

    implicit_gemm::dense_problem product_of(int64_t count) const {
        implicit_gemm::dense_problem product = mapping.problem;
        product.n = count;
        return product;
    }
    /// Of the images that come last where these are fewer; 0 where not.
    int64_t last_images() const { return mapping.problem.n % images; }
};

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
        // The least that leaves no rest. Beyond dst taps are skipped.
        const int64_t first = u % step * inverse_ % step;
        const int64_t position = floor_div(u - first * back, step);
        const int64_t skipped
                = position < dst ? 0 : (position - dst) / back + 1;
        const int64_t count = std::min(floor_div(window - 1 - first, step),
                                      floor_div(position, back))
                + 1 - skipped;
        if (count <= 0) return {};
        return {first + skipped * step, position - skipped * back, count};
    }

    int64_t src, dst, window;
    int64_t step = 1, back = 1;

private:
    int64_t pad_;
    int64_t divisor_ = 1;
    int64_t inverse_ = 0;
};

/// The products of a position along an axis: where the first one lies, in elements from
/// the begin of an image, with those along the other axes to be added.
struct product_taps {
    int32_t offset = 0;
    int32_t count = 0;
};

/// Threads have one to four channels of a position each: as many as divide all.
struct problem_shape {
    int channels = 1;
    int32_t next[3] {}; ///< from tap to tap along D, H, W, in elements
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

/// Nothing, and the reason, for what the kernel does not take.
std::optional<work_cut> cut_of(const detail::convolution_problem &problem,
        const detail::compile_options &options, std::string &refusal);

} // namespace gradnn::gpu::col2im
