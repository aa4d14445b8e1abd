// Depthwise problems for the tests of their cuts, and what these count.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu_cuts/layout.hpp"
#include "support/random.hpp"

namespace gradnn::test {

using detail::convolution_direction;
using detail::convolution_problem;
using detail::data_type;
using gpu::ceil_div;
using gpu::round_up;

/// How large a drawn problem may be.
enum class problem_size {
    few, ///< elements that a test goes through one by one
    usual, ///< a network's
    huge, ///< up to 2^33 elements, most of them along one axis
};

inline int64_t one_of(
        random_source &random, std::initializer_list<int64_t> values) {
    return random.pick(std::vector<int64_t>(values));
}

inline bool one_in(random_source &random, int64_t count) {
    return random.integer(1, count) == 1;
}

/// Points of src along an axis.
inline int64_t draw_points(
        random_source &random, problem_size size, bool last) {
    if (size == problem_size::few)
        return random.integer(1, last && one_in(random, 3) ? 140 : 12);
    if (one_in(random, 2))
        return one_of(random, {7, 14, 28, 32, 56, 64, 112, 128, 513});
    return random.integer(1, last ? 3000 : 200);
}

/// Windows of every kind: squares, cubes, rows, and any.
inline void draw_window(random_source &random, convolution_problem &p) {
    auto &kernel = p.weights.dims;
    const int64_t kind = random.integer(0, 9);
    if (kind < 4) {
        kernel[4] = kernel[5] = one_of(random, {3, 5, 7});
    } else if (kind == 4) {
        kernel[3] = kernel[4] = kernel[5] = 3;
    } else if (kind < 7) {
        kernel[5] = random.integer(1, 72);
    } else {
        for (size_t axis = 3; axis < 6; ++axis)
            kernel[axis] = random.integer(1, one_in(random, 2) ? 1 : 6);
    }
    const bool plain = random.integer(0, 2) > 0;
    const int64_t both = one_of(random, {1, 2, 2, 3});
    for (size_t axis = 0; axis < 3; ++axis) {
        if (plain) continue;
        if (kernel[axis + 3] > 1) p.strides[axis] = std::min<int64_t>(both, 3);
        if (one_in(random, 3)) p.strides[axis] = random.integer(1, 3);
        if (one_in(random, 2)) p.dilations[axis] = random.integer(1, 4);
    }
    p.strides[2] = std::min<int64_t>(p.strides[2], 2);
    // Now and then a step that is longer than any plane.
    if (!plain && one_in(random, 8))
        p.dilations[static_cast<size_t>(random.integer(0, 1))] = int64_t {1}
                << random.integer(4, 26);
}

/// Of groups of one channel, in all layouts and types. Sizes of src follow from
/// those of dst: no position of dst is beyond the pads.
inline convolution_problem draw_depthwise(
        random_source &random, problem_size size) {
    convolution_problem p;
    p.direction = random.pick(std::vector {convolution_direction::forward,
            convolution_direction::backward_data,
            convolution_direction::backward_weights});
    p.weights.dims = {1, 1, 1, 1, 1, 1};
    draw_window(random, p);
    // The gradient of windows as large as planes.
    if (size == problem_size::huge
            && p.direction == convolution_direction::backward_weights
            && one_in(random, 8))
        for (const size_t axis : {3, 4})
            p.weights.dims[axis] = int64_t {1} << random.integer(0, 17);
    const data_type type = random.pick(std::vector {
            data_type::f32, data_type::f64, data_type::bf16, data_type::f16});
    p.src.type = p.dst.type = p.weights.type = type;
    if (p.direction == convolution_direction::backward_weights
            && detail::size_of(type) == 2 && one_in(random, 4))
        p.weights.type = data_type::f32;
    int64_t channels = size == problem_size::few
            ? random.integer(1, 20)
            : one_of(random, {1, 2, 3, 8, 24, 64, 96, 99, 144, 257, 672});
    if (one_in(random, 3)) channels = round_up(channels, 8);
    int64_t images = size == problem_size::few
            ? random.integer(1, 3)
            : one_of(random, {1, 2, 3, 8, 32, 64});
    const bool deep = p.weights.dims[3] > 1 || one_in(random, 5);
    std::array<int64_t, 3> points {1, 1, 1};
    for (size_t axis = deep ? 0 : 1; axis < 3; ++axis)
        points[axis] = axis > 1 && one_in(random, 2)
                ? points[1]
                : draw_points(random, size, axis == 2);
    if (p.weights.dims[3] == 1 && one_in(random, 3)) points[1] = 1;
    if (size == problem_size::few)
        for (const size_t axis : {0, 1})
            points[axis] = std::min<int64_t>(points[axis], 12);
    // Rows that are as long as their windows, or as a piece.
    if (p.weights.dims[5] > 8)
        points[2] = one_in(random, 8)
                ? 512
                : std::max(points[2], random.integer(1, 200));
    // A few large planes.
    if (size == problem_size::few && one_in(random, 4)) {
        images = random.integer(1, 2);
        channels = one_in(random, 2) ? 8 : random.integer(1, 3);
        points[1] = random.integer(1, 220);
        points[2] = random.integer(1, 220);
    }
    if (size == problem_size::huge) {
        const int64_t many = int64_t {1} << random.integer(10, 27);
        const int64_t which = random.integer(0, 4);
        if (which < 3)
            points[static_cast<size_t>(which)] = many - random.integer(0, 3);
        else if (which == 3)
            channels = std::min<int64_t>(many, 1 << 24);
        else
            images = many;
        // Within 2^33 elements.
        for (int64_t *each : {&images, &channels, &points[0], &points[1]})
            while (*each > 1 && *each != many
                    && images * channels > (int64_t {1} << 33)
                                    / (points[0] * points[1] * points[2]))
                *each /= 2;
    }
    p.src.dims = {images, channels, points[0], points[1], points[2]};
    p.dst.dims = {images, channels, 1, 1, 1};
    p.weights.dims[0] = channels;
    const int64_t how = random.integer(0, 9);
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t reach
                = (p.weights.dims[axis + 3] - 1) * p.dilations[axis];
        int64_t begin = reach / 2; // the same size
        int64_t end = reach - begin;
        if (how == 6) begin = end = 0;
        if (how == 7) begin = end = reach;
        if (how > 7) {
            begin = random.integer(-1, reach);
            end = random.integer(-1, reach);
        }
        int64_t &src = p.src.dims[axis + 2];
        src = std::max(src, reach + 1 - begin - end);
        p.pads_begin[axis] = begin;
        p.dst.dims[axis + 2]
                = (src + begin + end - reach - 1) / p.strides[axis] + 1;
    }
    const bool nxc = one_in(random, 2);
    std::array<int64_t, 5> gaps {};
    if (one_in(random, 6)) gaps[static_cast<size_t>(random.integer(1, 4))] = 8;
    lay_out(p.src, nxc, gaps);
    lay_out(p.dst, nxc, one_in(random, 2) ? gaps : std::array<int64_t, 5> {});
    int64_t stride = 1;
    for (size_t axis = 6; axis-- > 0; stride *= p.weights.dims[axis])
        p.weights.strides[axis] = stride;
    return p;
}

inline std::string name_of(const convolution_problem &p) {
    static const char *const directions[] = {"forward", "data", "weights"};
    return detail::text(directions[static_cast<int>(p.direction)], " type ",
            static_cast<int>(p.src.type), " src ", detail::text_of(p.src.dims),
            " strides ", detail::text_of(p.src.strides), " dst ",
            detail::text_of(p.dst.dims), " kernel ",
            detail::text_of(p.weights.dims), " steps ",
            detail::text_of(p.strides), " dilations ",
            detail::text_of(p.dilations), " pads ",
            detail::text_of(p.pads_begin));
}

} // namespace gradnn::test
