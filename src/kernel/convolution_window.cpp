#include "kernel/convolution_window.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/whole_numbers.hpp"

namespace gradnn::detail {

namespace {

/// Point k of the window at position y meets element
/// y * stride + k * dilation - pad of src, if that is in [0, src).
struct window_axis {
    int64_t src, positions, points;
    int64_t stride, dilation, pad;
};

/// A position or a point of the window, and how far it is from the begin of src.
struct single_meeting {
    int64_t index;
    int64_t offset;
};

/// Where step > src + span, at most one of `count` indices has its offset
/// index * step - pad in [-span, src): that one may meet src when the other
/// index adds up to `span`.
std::optional<single_meeting> only_meeting(
        const window_axis &axis, int64_t count, int64_t step, int64_t span) {
    const int64_t index
            = std::max<int64_t>(0, ceil_divide(axis.pad - span, step));
    const int64_t offset = index * step - axis.pad;
    if (index >= count || offset >= axis.src) return {};
    return single_meeting {index, offset};
}

/// A pair (position, point) that meets src, and how many do.
struct only_pair {
    int64_t pairs = 0; ///< 0, 1, or 2 for more
    int64_t position = 0;
    int64_t point = 0;
};

only_pair find_pairs(const window_axis &axis) {
    only_pair found;
    for (int64_t k = 0; k < axis.points && found.pairs < 2; ++k) {
        const int64_t offset = k * axis.dilation - axis.pad;
        const int64_t first
                = std::max<int64_t>(0, ceil_divide(-offset, axis.stride));
        const int64_t end = std::min(
                axis.positions, ceil_divide(axis.src - offset, axis.stride));
        if (first >= end) continue;
        found.pairs += std::min<int64_t>(2, end - first);
        found.position = first;
        found.point = k;
    }
    return found;
}

/// False where nothing meets.
bool simplify(window_axis &axis) {
    // Few enough to look at, where all else leaves steps beyond this.
    constexpr int64_t most_points = 1 << 16;
    constexpr int64_t long_step = int64_t {1} << 30;
    if (axis.positions == 1) axis.stride = 1;
    if (axis.points == 1) axis.dilation = 1;
    const auto last
            = [](int64_t count, int64_t step) { return (count - 1) * step; };
    int64_t span = last(axis.positions, axis.stride);
    if (axis.dilation > axis.src + span) {
        const auto one = only_meeting(axis, axis.points, axis.dilation, span);
        if (!one) return false;
        axis.dilation = axis.src + span;
        axis.pad = one->index * axis.dilation - one->offset;
    }
    span = last(axis.points, axis.dilation);
    if (axis.stride > axis.src + span) {
        const auto one = only_meeting(axis, axis.positions, axis.stride, span);
        if (!one) return false;
        axis.stride = axis.src + span;
        axis.pad = one->index * axis.stride - one->offset;
    }
    if (std::max(axis.stride, axis.dilation) > long_step
            && axis.points <= most_points) {
        const only_pair found = find_pairs(axis);
        if (found.pairs == 0) return false;
        if (found.pairs == 1 && axis.stride > axis.src
                && axis.dilation / axis.positions > axis.src) {
            // Pairs are multiples of src's size apart, so that no other one
            // meets src.
            const int64_t element = found.position * axis.stride
                    + found.point * axis.dilation - axis.pad;
            axis.stride = axis.src;
            axis.dilation = axis.src * axis.positions;
            axis.pad = found.position * axis.stride
                    + found.point * axis.dilation - element;
        }
    }
    const int64_t farthest = last(axis.positions, axis.stride)
            + last(axis.points, axis.dilation);
    return axis.pad <= farthest && -axis.pad < axis.src;
}

} // namespace

bool simplify_windows(convolution_problem &problem) {
    bool meets = true;
    for (size_t i = 0; i < 3; ++i) {
        window_axis axis {problem.src.dims[i + 2], problem.dst.dims[i + 2],
                problem.weights.dims[i + 3], problem.strides[i],
                problem.dilations[i], problem.pads_begin[i]};
        meets = simplify(axis) && meets;
        problem.strides[i] = axis.stride;
        problem.dilations[i] = axis.dilation;
        problem.pads_begin[i] = axis.pad;
    }
    return meets;
}

int64_t window_reach(const convolution_problem &problem, size_t axis) {
    return problem.src.dims[axis + 2] + std::abs(problem.pads_begin[axis])
            + problem.dst.dims[axis + 2] * problem.strides[axis]
            + problem.weights.dims[axis + 3] * problem.dilations[axis];
}

bool windows_fit(const convolution_problem &problem, int64_t limit) {
    const auto small = [&](int64_t size) { return size < limit; };
    const auto all_small = [&](const auto &dims) {
        return std::all_of(dims.begin(), dims.end(), small);
    };
    if (!all_small(problem.src.dims) || !all_small(problem.dst.dims)
            || !all_small(problem.weights.dims))
        return false;
    for (size_t axis = 0; axis < 3; ++axis)
        if (!small(window_reach(problem, axis))) return false;
    return true;
}

} // namespace gradnn::detail
