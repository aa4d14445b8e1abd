#include "kernel/axis_filter.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <gradnn/status.hpp>

#include "base/text.hpp"

namespace gradnn::detail {

namespace {

interpolation_axis forwards(interpolation_axis axis) {
    if (axis.forward) std::swap(axis.src, axis.dst);
    return axis;
}

/// src elements from an output to the next, as a quotient.
std::pair<long double, long double> elements_apart(
        coordinate_mode coordinates, const interpolation_axis &axis) {
    if (coordinates != coordinate_mode::align_corners) {
        if (axis.ratio_given) return {axis.ratio, 1};
        if (axis.scale_given) return {1, axis.scale};
    }
    return {static_cast<long double>(axis.src),
            static_cast<long double>(axis.dst)};
}

} // namespace

bool is_filtered(interpolation_mode mode, const interpolation_axis &axis) {
    // Antialias widens nothing where nothing shrinks: linear maps are plain there.
    const bool shrinks = axis.src > axis.dst
            || (axis.ratio_given && axis.ratio > 1)
            || (axis.scale_given && axis.scale < 1);
    return mode == interpolation_mode::cubic || mode == interpolation_mode::box
            || axis.forward || (axis.antialias && shrinks);
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
    const auto [apart, of] = elements_apart(coordinates, axis);
    if (antialias_ && apart > of) {
        stretch_ = apart;
        stretch_den_ = of;
    }
    radius_ = stretch_ / stretch_den_ * (cubic_ ? 2 : 1);
    constexpr long double most = 0x1p28L;
    if (radius_ > most)
        throw error(status::unimplemented,
                text("an axis of ", axis.src, " to ", axis.dst,
                        " has a filter of more than 2^28 elements on each "
                        "side"));
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
    const axis_walk::position at = walk_.position_of(output);
    const int64_t low = at.low;
    const long double part = at.rest / at.den;
    auto first = static_cast<int64_t>(std::floor(part - radius_)) + 1;
    auto last = static_cast<int64_t>(std::ceil(part + radius_)) - 1;
    const int64_t end = walk_.src() - 1; // the last input
    if (cubic_ && !antialias_ && low >= 1 && low + 2 <= end && at.rest > 0) {
        weigh_four(part, (at.den - at.rest) / at.den);
        return {low - 1, weights_};
    }
    const int64_t clamped_first = std::clamp<int64_t>(low + first, 0, end);
    const int64_t clamped_last = std::clamp<int64_t>(low + last, 0, end);
    sums_.assign(static_cast<size_t>(clamped_last - clamped_first + 1), 0);
    if (exclude_outside_ && low + last >= 0 && low + first <= end) {
        first = clamped_first - low;
        last = clamped_last - low;
    }
    long double all = 0;
    for (int64_t k = first; k <= last; ++k) {
        const long double weight = filter(k, at);
        all += weight;
        sums_[static_cast<size_t>(
                std::clamp(low + k, clamped_first, clamped_last)
                - clamped_first)]
                += weight;
    }
    // Filters of weights at integer distances add up to 1 where they are neither
    // widened nor cut off.
    const long double share = antialias_ || exclude_outside_ ? all : 1;
    if (share == 0) { // what is inside is where the filter crosses 0
        weights_.assign(1, 1);
        return {std::clamp<int64_t>(low, 0, end), weights_};
    }
    weights_.resize(sums_.size());
    for (size_t i = 0; i < sums_.size(); ++i)
        weights_[i] = static_cast<double>(sums_[i] / share);
    return {clamped_first, weights_};
}

/// What filter() gives the inputs around an output within the axis, with fewer
/// divisions: it is `part` behind the second, and `rest` before the third.
void axis_filter::weigh_four(long double part, long double rest) {
    const long double a = slope_at_one_;
    const auto near = [&](long double x, long double to_one) {
        return static_cast<double>(to_one * (1 + x * (1 - (a + 2) * x)));
    };
    weights_.resize(4);
    weights_[0] = static_cast<double>(a * part * rest * rest);
    weights_[1] = near(part, rest);
    weights_[2] = near(rest, part);
    weights_[3] = static_cast<double>(a * rest * part * part);
}

/// Keys' cubic convolution, or a triangle. Products of numbers of few bits and sums of
/// them are exact, and polynomials are in factors that are 0 where the filter is: near
/// that its weights keep their digits.
long double axis_filter::filter(
        int64_t k, const axis_walk::position &at) const {
    const long double den = at.den * stretch_;
    const long double num = std::fabs(
            (static_cast<long double>(k) * at.den - at.rest) * stretch_den_);
    const long double x = num / den;
    if (!cubic_) return std::max(0.0L, (den - num) / den);
    const long double a = slope_at_one_;
    const long double to_one = (den - num) / den;
    if (x < 1) return to_one * (1 + x * (1 - (a + 2) * x));
    const long double to_two = (2 * den - num) / den;
    return x < 2 ? -a * to_one * to_two * to_two : 0;
}

} // namespace gradnn::detail
