#include "axis_map.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gradnn::detail {

namespace {

// A dim has at most 63 bits, so products of two of them fit.
__extension__ typedef __int128 wide;

/// num / den, den > 0.
struct ratio {
    wide num = 0;
    wide den = 1;
};

int64_t floor(const ratio &x) {
    const wide quotient = x.num / x.den;
    return static_cast<int64_t>(x.num % x.den < 0 ? quotient - 1 : quotient);
}

/// Coordinate of an output in src, of a mode and an axis. For nearest the half
/// that is added before flooring is part of it.
class coordinate {
public:
    coordinate(interpolation_mode mode, coordinate_mode coordinates,
            const interpolation_axis &axis)
        : axis_(axis),
          coordinates_(coordinates),
          rounds_(mode == interpolation_mode::nearest
                  && coordinates != coordinate_mode::asymmetric) {
        if (coordinates == coordinate_mode::align_corners) return;
        if (axis.ratio_given)
            split(axis.ratio);
        else if (axis.scale_given)
            split(static_cast<double>(axis.scale));
    }

    /// Beyond src on either side the exact value does not matter: it is
    /// clamped by the caller.
    ratio operator()(int64_t output) const {
        const wide src = axis_.src;
        const wide dst = axis_.dst;
        const wide o = output;
        if (coordinates_ == coordinate_mode::align_corners) {
            if (axis_.dst == 1) return {};
            if (rounds_) return {2 * o * (src - 1) + (dst - 1), 2 * (dst - 1)};
            return {o * (src - 1), dst - 1};
        }
        if (axis_.ratio_given) return by_ratio(output);
        if (axis_.scale_given) return by_scale(output);
        if (coordinates_ == coordinate_mode::asymmetric) return {o * src, dst};
        const wide middle = (2 * o + 1) * src;
        return {rounds_ ? middle : middle - dst, 2 * dst};
    }

private:
    // Bits that fit in a wide with room to spare.
    static constexpr int most_bits = 120;

    // value = mantissa * 2^exponent exactly, mantissa odd.
    void split(double value) {
        int exponent = 0;
        const double fraction = std::frexp(value, &exponent);
        mantissa_ = static_cast<uint64_t>(std::ldexp(fraction, 53));
        exponent_ = exponent - 53;
        const int zeros = std::countr_zero(mantissa_);
        mantissa_ >>= zeros;
        exponent_ += zeros;
    }

    // (2o + half) * ratio / 2, less a half where it is not rounded.
    ratio by_ratio(int64_t output) const {
        const bool half = coordinates_ == coordinate_mode::half_pixel;
        const wide twice = 2 * wide {output} + half;
        // At most 53 and 64 bits.
        const wide product = static_cast<wide>(mantissa_) * twice;
        if (product == 0) return {};
        const int bits = std::bit_width(mantissa_)
                + std::bit_width(static_cast<uint64_t>(twice));
        const int shift = exponent_ - 1; // coordinate = product * 2^shift
        if (shift >= 0 && bits + shift > most_bits) return {axis_.src, 1};
        ratio x; // exact: a ratio is 2^-60 or more, shift -113
        if (shift >= 0)
            x = {2 * (product << shift), 2};
        else
            x = {product, wide {1} << -shift};
        if (half && !rounds_) x.num -= x.den / 2;
        return x;
    }

    // (2o + 1) / (2 * scale), less a half where it is not rounded; or
    // o / scale = 2o / (2 * scale).
    ratio by_scale(int64_t output) const {
        const bool half = coordinates_ == coordinate_mode::half_pixel;
        const uint64_t twice = 2 * static_cast<uint64_t>(output) + half;
        const wide mantissa = mantissa_;
        // Where a shift would overflow, the scale is so small that every
        // output but the first of asymmetric lies beyond src, or so large that
        // every output lies on src[0], to 50 bits and more.
        ratio x;
        if (exponent_ < 0) {
            if (std::bit_width(twice) - exponent_ > most_bits)
                return {twice == 0 ? 0 : axis_.src, 1};
            x = {static_cast<wide>(twice) << -exponent_, 2 * mantissa};
        } else {
            if (std::bit_width(mantissa_) + exponent_ > most_bits) return {};
            x = {twice, 2 * (mantissa << exponent_)};
        }
        if (half && !rounds_) x.num -= x.den / 2;
        return x;
    }

    const interpolation_axis axis_;
    const coordinate_mode coordinates_;
    const bool rounds_;
    uint64_t mantissa_ = 1;
    int exponent_ = 0;
};

/// Where a forward that floors a rounded coordinate reads. The ratio is
/// rounded first, as that forward's was.
int64_t rounded_index(
        bool half_pixel, const interpolation_axis &axis, int64_t output) {
    const auto clamped = [&](float x) {
        const int64_t last = axis.src - 1;
        return x < 0x1p62F ? std::min(static_cast<int64_t>(std::floor(x)), last)
                           : last;
    };
    if (axis.arithmetic == coordinate_arithmetic::float64) {
        const double of = axis.ratio_given
                ? axis.ratio
                : static_cast<double>(axis.src) / static_cast<double>(axis.dst);
        const double place
                = static_cast<double>(output) + (half_pixel ? 0.5 : 0.0);
        return clamped(static_cast<float>(place * of));
    }
    const float of = axis.ratio_given
            ? static_cast<float>(axis.ratio)
            : static_cast<float>(axis.src) / static_cast<float>(axis.dst);
    const auto place = static_cast<float>(output);
    if (!half_pixel) return clamped(place * of);
    if (axis.arithmetic == coordinate_arithmetic::float32)
        return clamped((place + 0.5F) * of);
    return clamped(std::fma(of, place + 0.5F, -0.5F) + 0.5F);
}

void make_forward(axis_map &map, interpolation_mode mode,
        coordinate_mode coordinates, const interpolation_axis &axis) {
    const auto outputs = static_cast<size_t>(map.dst);
    map.low.resize(outputs);
    map.high.resize(outputs);
    map.low_weight.assign(outputs, 1.0);
    map.high_weight.assign(outputs, 0.0);
    if (axis.arithmetic != coordinate_arithmetic::exact) {
        const bool half_pixel = coordinates == coordinate_mode::half_pixel;
        for (size_t o = 0; o < outputs; ++o)
            map.low[o]
                    = rounded_index(half_pixel, axis, static_cast<int64_t>(o));
        map.high = map.low;
        return;
    }
    const coordinate coordinate_of(mode, coordinates, axis);
    for (size_t o = 0; o < outputs; ++o) {
        const ratio x = coordinate_of(static_cast<int64_t>(o));
        const bool below = x.num < 0;
        const bool beyond = x.num / x.den >= map.src - 1;
        const int64_t low = below ? 0 : beyond ? map.src - 1 : floor(x);
        map.low[o] = low;
        map.high[o] = low;
        if (mode == interpolation_mode::nearest || below || beyond) continue;
        const wide rest = x.num - static_cast<wide>(low) * x.den;
        if (rest == 0) continue;
        map.high[o] = low + 1;
        const auto den = static_cast<double>(x.den);
        map.low_weight[o] = static_cast<double>(x.den - rest) / den;
        map.high_weight[o] = static_cast<double>(rest) / den;
    }
}

// Coordinates never descend, so the outputs that touch an input follow one
// another: first those that have it as their high tap, then those that have it
// as their low one.
void make_gathered(axis_map &map) {
    const auto inputs = static_cast<size_t>(map.src);
    map.first.resize(inputs);
    map.count.resize(inputs);
    map.offset.resize(inputs + 1);
    int64_t begin = 0;
    for (size_t i = 0; i < inputs; ++i) {
        const auto input = static_cast<int64_t>(i);
        while (begin < map.dst && map.high[static_cast<size_t>(begin)] < input)
            ++begin;
        map.first[i] = begin;
        map.offset[i] = static_cast<int64_t>(map.weights.size());
        int64_t o = begin;
        for (; o < map.dst; ++o) {
            const auto output = static_cast<size_t>(o);
            if (map.low[output] == input)
                map.weights.push_back(map.low_weight[output]);
            else if (map.high[output] == input)
                map.weights.push_back(map.high_weight[output]);
            else
                break;
        }
        map.count[i] = o - begin;
        map.max_count = std::max(map.max_count, map.count[i]);
    }
    map.offset[inputs] = static_cast<int64_t>(map.weights.size());
}

} // namespace

axis_map make_axis_map(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    axis_map map;
    map.src = axis.src;
    map.dst = axis.dst;
    make_forward(map, mode, coordinates, axis);
    make_gathered(map);
    map.identity = map.src == map.dst;
    for (size_t o = 0; map.identity && o < map.low.size(); ++o)
        map.identity = map.low[o] == static_cast<int64_t>(o)
                && map.high[o] == map.low[o];
    return map;
}

} // namespace gradnn::detail
