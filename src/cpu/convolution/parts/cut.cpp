#include "cpu/convolution/parts/cut.hpp"

#include <algorithm>
#include <limits>

#include "base/whole_numbers.hpp"

namespace gradnn::cpu {

using detail::ceil_divide;
using detail::convolution_direction;
using detail::convolution_problem;

namespace {

/// Larger windows are not cut: what is compared grows with their square.
constexpr int64_t longest_window = 32;
constexpr size_t most_ranges = 4;
/// Ranges are joined where that adds at most this part of the products.
constexpr double tolerance = 0.08;

struct window {
    int64_t stride, dilation, pad;

    window(const convolution_problem &problem, size_t axis)
        : stride(problem.strides[axis]),
          dilation(problem.dilations[axis]),
          pad(problem.pads_begin[axis]) {}

    /// The positions of dst whose tap meets the range of src.
    axis_range positions(
            int64_t tap, const axis_range &src, const axis_range &dst) const {
        const int64_t offset = tap * dilation - pad;
        const int64_t begin
                = std::max(dst.begin, ceil_divide(src.begin - offset, stride));
        const int64_t end
                = std::min(dst.end, ceil_divide(src.end - offset, stride));
        return {begin, std::max(begin, end)};
    }
};

void widen(axis_range &range, int64_t begin, int64_t end) {
    if (range.size() == 0) range = {begin, end};
    range.begin = std::min(range.begin, begin);
    range.end = std::max(range.end, end);
}

/// Narrows what is read to what meets the range of the output.
part_axis narrowed(const convolution_problem &problem, size_t axis,
        const part_axis &given) {
    const window at(problem, axis);
    part_axis part;
    for (int64_t tap = given.taps.begin; tap < given.taps.end; ++tap) {
        const axis_range dst = at.positions(tap, given.src, given.dst);
        if (dst.size() == 0) continue;
        const int64_t offset = tap * at.dilation - at.pad;
        widen(part.taps, tap, tap + 1);
        widen(part.dst, dst.begin, dst.end);
        widen(part.src, dst.begin * at.stride + offset,
                (dst.end - 1) * at.stride + offset + 1);
    }
    switch (problem.direction) {
        case convolution_direction::forward: part.dst = given.dst; break;
        case convolution_direction::backward_data: part.src = given.src; break;
        case convolution_direction::backward_weights:
            part.taps = given.taps;
            break;
    }
    return part;
}

/// The part's range of the output.
axis_range &written_range(const convolution_problem &problem, part_axis &part) {
    return problem.direction == convolution_direction::forward ? part.dst
            : problem.direction == convolution_direction::backward_data
            ? part.src
            : part.taps;
}

/// Where the taps that meet the output change; its begin and end too.
std::vector<int64_t> find_bounds(
        const convolution_problem &problem, size_t axis, part_axis whole) {
    const axis_range output = written_range(problem, whole);
    std::vector<int64_t> bounds {output.begin, output.end};
    const window at(problem, axis);
    const auto add = [&](int64_t bound) {
        if (bound > output.begin && bound < output.end) bounds.push_back(bound);
    };
    for (int64_t tap = whole.taps.begin; tap < whole.taps.end; ++tap) {
        const int64_t offset = tap * at.dilation - at.pad;
        const axis_range dst = at.positions(tap, whole.src, whole.dst);
        if (problem.direction == convolution_direction::backward_weights) {
            add(tap);
        } else if (problem.direction == convolution_direction::forward) {
            add(dst.begin);
            add(dst.end);
        } else if (at.stride == 1) {
            add(dst.begin + offset);
            add(dst.end + offset);
        }
    }
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    return bounds;
}

} // namespace

part_axis whole_axis(const convolution_problem &problem, size_t axis) {
    return {{0, problem.src.dims[axis + 2]},
            {0, problem.weights.dims[axis + 3]},
            {0, problem.dst.dims[axis + 2]}};
}

double products_of(const convolution_problem &problem, const part_axis &part) {
    if (part.is_empty()) return 0;
    const auto taps = static_cast<double>(part.taps.size());
    return taps
            * static_cast<double>(
                    problem.direction == convolution_direction::backward_data
                            ? part.src.size()
                            : part.dst.size());
}

std::vector<part_axis> cut_axis(
        const convolution_problem &problem, size_t axis) {
    const part_axis whole = whole_axis(problem, axis);
    if (whole.taps.size() == 1 || whole.taps.size() > longest_window)
        return {whole};
    std::vector<int64_t> bounds = find_bounds(problem, axis, whole);
    const auto part_between = [&](int64_t begin, int64_t end) {
        part_axis part = whole;
        written_range(problem, part) = {begin, end};
        return narrowed(problem, axis, part);
    };
    const auto products = [&](int64_t begin, int64_t end) {
        return products_of(problem, part_between(begin, end));
    };
    double least = 0;
    for (size_t i = 0; i + 1 < bounds.size(); ++i)
        least += products(bounds[i], bounds[i + 1]);
    while (bounds.size() > 2) {
        size_t best = 0;
        double added = std::numeric_limits<double>::infinity();
        for (size_t i = 1; i + 1 < bounds.size(); ++i) {
            const double more = products(bounds[i - 1], bounds[i + 1])
                    - products(bounds[i - 1], bounds[i])
                    - products(bounds[i], bounds[i + 1]);
            if (more < added) {
                added = more;
                best = i;
            }
        }
        if (bounds.size() <= most_ranges + 1 && added > tolerance * least)
            break;
        bounds.erase(bounds.begin() + static_cast<int64_t>(best));
    }
    std::vector<part_axis> parts;
    for (size_t i = 0; i + 1 < bounds.size(); ++i)
        parts.push_back(part_between(bounds[i], bounds[i + 1]));
    return parts;
}

std::vector<part_axis> cut_sums(const convolution_problem &problem, size_t axis,
        const part_axis &whole, int64_t most_taps) {
    const int64_t taps = whole.taps.size();
    const int64_t pieces = ceil_divide(taps, std::max<int64_t>(1, most_taps));
    std::vector<part_axis> parts;
    for (int64_t piece = 0; piece < pieces; ++piece) {
        part_axis part = whole;
        part.taps = {whole.taps.begin + taps * piece / pieces,
                whole.taps.begin + taps * (piece + 1) / pieces};
        parts.push_back(narrowed(problem, axis, part));
    }
    return parts;
}

convolution_part part_of(const convolution_problem &problem,
        const std::array<part_axis, 3> &axes) {
    convolution_part part {problem};
    convolution_problem &p = part.problem;
    for (size_t a = 0; a < 3; ++a) {
        const part_axis &axis = axes[a];
        p.src.dims[a + 2] = axis.src.size();
        p.weights.dims[a + 3] = axis.taps.size();
        p.dst.dims[a + 2] = axis.dst.size();
        p.pads_begin[a] += axis.src.begin - axis.dst.begin * p.strides[a]
                - axis.taps.begin * p.dilations[a];
        part.begins[0] += axis.src.begin * p.src.strides[a + 2];
        part.begins[1] += axis.taps.begin * p.weights.strides[a + 3];
        part.begins[2] += axis.dst.begin * p.dst.strides[a + 2];
        if (axis.taps.size() == 1) p.dilations[a] = 1;
        if (axis.dst.size() == 1) p.strides[a] = 1;
    }
    return part;
}

} // namespace gradnn::cpu
