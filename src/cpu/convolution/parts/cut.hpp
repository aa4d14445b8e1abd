// A convolution as several smaller ones, each with a range of src, of the window
// and of dst along every spatial axis.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// Elements [begin, end) of a tensor along one spatial axis.
struct axis_range {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t size() const { return end - begin; }
};

/// One axis of a part.
struct part_axis {
    axis_range src;
    axis_range taps;
    axis_range dst;

    /// Whether nothing meets: the part's output is 0.
    bool is_empty() const { return taps.size() == 0 || dst.size() == 0; }
};

part_axis whole_axis(const detail::convolution_problem &problem, size_t axis);

/// An axis in parts, which have disjoint ranges of the output (of the window,
/// for backward_weights) and together all of it. They hold of the other two
/// tensors what meets that range.
std::vector<part_axis> cut_axis(
        const detail::convolution_problem &problem, size_t axis);

/// The axis in parts of the window, of at most so many taps each, whose outputs
/// add up. The first writes all of the output.
std::vector<part_axis> cut_sums(const detail::convolution_problem &problem,
        size_t axis, const part_axis &whole, int64_t most_taps);

/// What a part multiplies along the axis: elements of the output times taps (for
/// backward_weights taps times elements of dst).
double products_of(
        const detail::convolution_problem &problem, const part_axis &part);

/// A part as a problem of its own, and where its tensors begin, in elements: src,
/// weights, dst.
struct convolution_part {
    detail::convolution_problem problem;
    std::array<int64_t, 3> begins {};
};

convolution_part part_of(const detail::convolution_problem &problem,
        const std::array<part_axis, 3> &axes);

} // namespace gradnn::cpu
