#include "kernel/axis_filter.hpp"

#include <algorithm>
#include <cmath>

#include <gradnn/status.hpp>

#include "base/text.hpp"

namespace gradnn::detail {

namespace {

interpolation_axis forwards(interpolation_axis axis) {
    if (axis.forward) std::swap(axis.src, axis.dst);
    return axis;
}

/// src elements from an output to the next.
long double elements_apart(
        coordinate_mode coordinates, const interpolation_axis &axis) {
    if (coordinates != coordinate_mode::align_corners) {
        if (axis.ratio_given) return axis.ratio;
        if (axis.scale_given) return 1 / static_cast<long double>(axis.scale);
    }
    return static_cast<long double>(axis.src)
            / static_cast<long double>(axis.dst);
}

} // namespace

bool is_filtered(interpolation_mode mode, const interpolation_axis &axis) {
    return mode == interpolation_mode::cubic || axis.antialias || axis.forward;
}

axis_filter::axis_filter(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &given)
    : walk_(mode, coordinates, forwards(given)),
      cubic_(mode == interpolation_mode::cubic),
      plain_(!cubic_ && !given.antialias),
      antialias_(given.antialias),
      exclude_outside_(given.exclude_outside),
      slope_at_one_(given.cubic_coeff_a) {
    const interpolation_axis axis = forwards(given);
    if (plain_) {
        weights_.resize(2);
        return;
    }
    if (antialias_)
        stretch_ = std::max(1.0L, elements_apart(coordinates, axis));
    radius_ = stretch_ * (cubic_ ? 2 : 1);
    constexpr auto most = static_cast<long double>(int64_t {1} << 28);
    const long double all
            = (2 * radius_ + 1) * static_cast<long double>(axis.dst);
    if (all > most)
        throw error(status::unimplemented,
                text("an axis of ", axis.src, " to ", axis.dst,
                        ", whose filter is wider than ",
                        static_cast<int64_t>(std::min(radius_, most)),
                        " elements on each side, needs more than 2^28 "
                        "weights"));
    width_ = 2 * static_cast<int64_t>(std::ceil(radius_)) + 1;
}

axis_filter::taps axis_filter::at(int64_t output) {
    if (plain_) {
        const output_taps two = walk_.at(output);
        weights_[0] = two.low_weight;
        weights_[1] = two.high_weight;
        return {two.low,
                std::span<const double>(weights_).first(two.two ? 2 : 1)};
    }
    const auto [low, part] = walk_.position_of(output);
    auto first = static_cast<int64_t>(std::floor(part - radius_)) + 1;
    auto last = static_cast<int64_t>(std::ceil(part + radius_)) - 1;
    const int64_t end = walk_.src() - 1; // the last input
    const int64_t clamped_first = std::clamp<int64_t>(low + first, 0, end);
    const int64_t clamped_last = std::clamp<int64_t>(low + last, 0, end);
    sums_.assign(static_cast<size_t>(clamped_last - clamped_first + 1), 0);
    if (exclude_outside_ && low + last >= 0 && low + first <= end) {
        first = clamped_first - low;
        last = clamped_last - low;
    }
    long double all = 0;
    for (int64_t k = first; k <= last; ++k) {
        const long double weight
                = filter((static_cast<long double>(k) - part) / stretch_);
        all += weight;
        sums_[static_cast<size_t>(
                std::clamp(low + k, clamped_first, clamped_last)
                - clamped_first)]
                += weight;
    }
    // Filters of weights at integer distances add up to 1 where they are neither
    // widened nor cut off.
    long double share = antialias_ || exclude_outside_ ? all : 1;
    if (share == 0) { // what is inside is where the filter crosses 0
        sums_[static_cast<size_t>(
                std::clamp(low, clamped_first, clamped_last) - clamped_first)]
                = share = 1;
    }
    weights_.resize(sums_.size());
    for (size_t i = 0; i < sums_.size(); ++i)
        weights_[i] = static_cast<double>(sums_[i] / share);
    return {clamped_first, weights_};
}

/// Keys' cubic convolution, or a triangle.
long double axis_filter::filter(long double distance) const {
    const long double x = std::fabs(distance);
    if (!cubic_) return std::max(0.0L, 1 - x);
    const long double a = slope_at_one_;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return a * (((x - 5) * x + 8) * x - 4);
    return 0;
}

} // namespace gradnn::detail
