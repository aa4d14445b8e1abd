#include "kernel/axis_walk.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace gradnn::detail {

namespace {

// Bits that fit in a wide_integer with room to spare.
constexpr int most_bits = 120;
// Of a line's numbers, so that sums of two fit in 64.
constexpr int most_line_bits = 60;

int64_t floor(const wide_ratio &x) {
    const wide_integer quotient = x.num / x.den;
    return static_cast<int64_t>(x.num % x.den < 0 ? quotient - 1 : quotient);
}

int bits_of(uint64_t value) {
    return static_cast<int>(std::bit_width(value));
}

/// The ratio of a rounded arithmetic, as the forward's rounds it.
double rounded_ratio(const interpolation_axis &axis) {
    if (axis.arithmetic == coordinate_arithmetic::float64)
        return axis.ratio_given
                ? axis.ratio
                : static_cast<double>(axis.src) / static_cast<double>(axis.dst);
    return static_cast<double>(axis.ratio_given ? static_cast<float>(axis.ratio)
                                                : static_cast<float>(axis.src)
                            / static_cast<float>(axis.dst));
}

/// The axis in exact arithmetic where that rounds nothing: products of an
/// output's place and the ratio fit in a float.
interpolation_axis simplified(const interpolation_axis &axis) {
    if (axis.arithmetic == coordinate_arithmetic::exact) return axis;
    constexpr int float_bits = 24;
    const double ratio = rounded_ratio(axis);
    int exponent = 0;
    const auto mantissa = static_cast<uint64_t>(
            std::ldexp(std::frexp(ratio, &exponent), 53));
    const int bits = bits_of(mantissa >> std::countr_zero(mantissa));
    const auto twice = static_cast<uint64_t>(axis.dst) * 2 - 1;
    // The fused form subtracts and adds a half: units of 1 / 2 and of the
    // product's last bit have to fit side by side.
    const int fraction = std::max(0, bits - exponent) + 1;
    if (bits + bits_of(twice) > float_bits
            || bits_of(static_cast<uint64_t>(axis.src)) + fraction > float_bits)
        return axis;
    interpolation_axis exact = axis;
    exact.arithmetic = coordinate_arithmetic::exact;
    exact.ratio_given = true;
    exact.ratio = ratio;
    return exact;
}

/// Where a forward that floors a rounded coordinate reads. The ratio is
/// rounded first, as that forward's was.
int64_t rounded_index(bool half_pixel, const interpolation_axis &axis,
        int64_t last, int64_t output) {
    const auto clamped = [&](float x) {
        return x < 0x1p62F ? std::min(static_cast<int64_t>(std::floor(x)), last)
                           : last;
    };
    const double ratio = rounded_ratio(axis);
    if (axis.arithmetic == coordinate_arithmetic::float64) {
        const double place
                = static_cast<double>(output) + (half_pixel ? 0.5 : 0.0);
        return clamped(static_cast<float>(place * ratio));
    }
    const auto of = static_cast<float>(ratio);
    const auto place = static_cast<float>(output);
    if (!half_pixel) return clamped(place * of);
    if (axis.arithmetic == coordinate_arithmetic::float32)
        return clamped((place + 0.5F) * of);
    return clamped(std::fma(of, place + 0.5F, -0.5F) + 0.5F);
}

} // namespace

axis_walk::axis_walk(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis)
    : axis_(simplified(axis)),
      coordinates_(coordinates),
      nearest_(mode == interpolation_mode::nearest),
      rounds_(nearest_ && coordinates != coordinate_mode::asymmetric),
      last_(axis.src - 1),
      dst_(axis.dst) {
    if (axis_.arithmetic != coordinate_arithmetic::exact) return;
    if (coordinates != coordinate_mode::align_corners) {
        if (axis_.ratio_given)
            split(axis_.ratio);
        else if (axis_.scale_given)
            split(static_cast<double>(axis_.scale));
    }
    find_line();
}

// value = mantissa * 2^exponent exactly, mantissa odd.
void axis_walk::split(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    mantissa_ = static_cast<uint64_t>(std::ldexp(fraction, 53));
    exponent_ = exponent - 53;
    const int zeros = std::countr_zero(mantissa_);
    mantissa_ >>= zeros;
    exponent_ += zeros;
}

// Beyond src on either side the exact value does not matter: it is clamped by
// the caller.
wide_ratio axis_walk::coordinate(int64_t output) const {
    const wide_integer src = axis_.src;
    const wide_integer dst = axis_.dst;
    const wide_integer o = output;
    if (coordinates_ == coordinate_mode::align_corners) {
        if (axis_.dst == 1) return {};
        if (rounds_) return {2 * o * (src - 1) + (dst - 1), 2 * (dst - 1)};
        return {o * (src - 1), dst - 1};
    }
    if (axis_.ratio_given) return by_ratio(output);
    if (axis_.scale_given) return by_scale(output);
    if (coordinates_ == coordinate_mode::asymmetric) return {o * src, dst};
    const wide_integer middle = (2 * o + 1) * src;
    return {rounds_ ? middle : middle - dst, 2 * dst};
}

// (2o + half) * ratio / 2, less a half where it is not rounded.
wide_ratio axis_walk::by_ratio(int64_t output) const {
    const bool half = coordinates_ == coordinate_mode::half_pixel;
    const wide_integer twice = 2 * wide_integer {output} + half;
    // At most 53 and 64 bits.
    const wide_integer product = static_cast<wide_integer>(mantissa_) * twice;
    if (product == 0) return {};
    const int bits = bits_of(mantissa_) + bits_of(static_cast<uint64_t>(twice));
    const int shift = exponent_ - 1; // coordinate = product * 2^shift
    if (shift >= 0 && bits + shift > most_bits) return {axis_.src, 1};
    wide_ratio x; // exact: a ratio is 2^-60 or more, shift -113
    if (shift >= 0)
        x = {2 * (product << shift), 2};
    else
        x = {product, wide_integer {1} << -shift};
    if (half && !rounds_) x.num -= x.den / 2;
    return x;
}

// (2o + 1) / (2 * scale), less a half where it is not rounded; or
// o / scale = 2o / (2 * scale).
wide_ratio axis_walk::by_scale(int64_t output) const {
    const bool half = coordinates_ == coordinate_mode::half_pixel;
    const uint64_t twice = 2 * static_cast<uint64_t>(output) + half;
    const wide_integer mantissa = mantissa_;
    // Where a shift would overflow, the scale is so small that every output
    // but the first of asymmetric lies beyond src, or so large that every
    // output lies on src[0], to 50 bits and more.
    wide_ratio x;
    if (exponent_ < 0) {
        if (bits_of(twice) - exponent_ > most_bits)
            return {twice == 0 ? 0 : axis_.src, 1};
        x = {static_cast<wide_integer>(twice) << -exponent_, 2 * mantissa};
    } else {
        if (bits_of(mantissa_) + exponent_ > most_bits) return {};
        x = {twice, 2 * (mantissa << exponent_)};
    }
    if (half && !rounds_) x.num -= x.den / 2;
    return x;
}

void axis_walk::find_line() {
    constexpr wide_integer most = wide_integer {1} << most_line_bits;
    if (axis_.dst > (int64_t {1} << 58) || axis_.src > (int64_t {1} << 58))
        return;
    // Of the first three outputs, of which none meets the overflow rules above
    // where the last one does not. Output 0 may be 0 / 1, whatever the others'
    // denominator is.
    const wide_ratio one = coordinate(1);
    const wide_ratio two = coordinate(2);
    const wide_ratio last = coordinate(dst_ + 1);
    if (one.den != two.den || one.den != last.den) return;
    const wide_integer slope = two.num - one.num;
    const wide_integer offset = one.num - slope;
    if (slope < 0 || slope > most || one.den > most || offset > most
            || offset < -most)
        return;
    if (last.num != slope * (dst_ + 1) + offset) return;
    const wide_ratio zero = coordinate(0);
    if (zero.num != offset || (zero.den != one.den && offset != 0)) return;
    linear_ = true;
    slope_ = static_cast<int64_t>(slope);
    offset_ = static_cast<int64_t>(offset);
    den_ = static_cast<int64_t>(one.den);
    step_low_ = slope_ / den_;
    step_rest_ = slope_ % den_;
}

void axis_walk::seek(int64_t output) {
    const wide_integer num = wide_integer {slope_} * output + offset_;
    const wide_integer low = num < 0 ? -((-num + den_ - 1) / den_) : num / den_;
    rest_ = static_cast<int64_t>(num - low * den_);
    low_ = static_cast<int64_t>(std::min<wide_integer>(low, int64_t {1} << 61));
    next_ = output;
}

output_taps axis_walk::compute(int64_t output) const {
    if (axis_.arithmetic != coordinate_arithmetic::exact)
        return {rounded_index(coordinates_ == coordinate_mode::half_pixel,
                axis_, last_, output)};
    const wide_ratio x = coordinate(output);
    if (x.num < 0) return {};
    if (x.num / x.den >= last_) return {last_};
    const int64_t low = floor(x);
    const wide_integer rest = x.num - static_cast<wide_integer>(low) * x.den;
    if (nearest_ || rest == 0) return {low};
    const auto den = static_cast<double>(x.den);
    return {low, true, static_cast<double>(x.den - rest) / den,
            static_cast<double>(rest) / den};
}

int64_t axis_walk::first_at(int64_t input) {
    if (input <= 0) return 0;
    // Coordinates do not descend.
    int64_t begin = 0;
    int64_t end = dst_;
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (at(middle).high() < input)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

std::optional<axis_walk::period> axis_walk::repeats() const {
    if (!linear_ || slope_ == 0) return std::nullopt;
    const int64_t common = std::gcd(slope_, den_);
    return period {slope_ / common, den_ / common};
}

int64_t axis_walk::first_within(int64_t input) const {
    const wide_integer before = wide_integer {input} * den_ - offset_;
    return before <= 0 ? 0
                       : static_cast<int64_t>((before + slope_ - 1) / slope_);
}

axis_walk::position axis_walk::position_of(int64_t output) const {
    int64_t num = 0;
    if (linear_ && !__builtin_mul_overflow(slope_, output, &num)
            && !__builtin_add_overflow(num, offset_, &num)) {
        // Divisions of more bits take several times as long.
        const int64_t floor = num / den_ - (num % den_ < 0 ? 1 : 0);
        return {floor, static_cast<long double>(num - floor * den_),
                static_cast<long double>(den_)};
    }
    const wide_ratio x = linear_
            ? wide_ratio {wide_integer {slope_} * output + offset_, den_}
            : coordinate(output);
    constexpr wide_integer far = wide_integer {1} << 61;
    wide_integer low = x.num / x.den - (x.num % x.den < 0 ? 1 : 0);
    const wide_integer rest = x.num - low * x.den;
    low = std::clamp(low, -far, far);
    return {static_cast<int64_t>(low), static_cast<long double>(rest),
            static_cast<long double>(x.den)};
}

} // namespace gradnn::detail
