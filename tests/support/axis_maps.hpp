// Axis maps against the coordinate formulas in exact rational arithmetic of the
// tests' own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernel/axis_map.hpp"

namespace gradnn::detail {

/// Numerator and denominator of the coordinate of output o, from dst / src.
struct fraction {
    __int128 num;
    __int128 den;
};

inline fraction coordinate(
        coordinate_mode mode, int64_t src, int64_t dst, int64_t o) {
    switch (mode) {
        case coordinate_mode::half_pixel:
            return {(2 * __int128 {o} + 1) * src - dst, 2 * __int128 {dst}};
        case coordinate_mode::align_corners:
            return dst == 1 ? fraction {0, 1}
                            : fraction {__int128 {o} * (src - 1), dst - 1};
        case coordinate_mode::asymmetric: break;
    }
    return {__int128 {o} * src, dst};
}

struct expected_tap {
    int64_t low;
    int64_t high;
    double low_weight;
    double high_weight;
};

inline expected_tap taps(interpolation_mode mode, coordinate_mode coordinates,
        int64_t src, int64_t dst, int64_t o) {
    fraction x = coordinate(coordinates, src, dst, o);
    if (mode == interpolation_mode::nearest
            && coordinates != coordinate_mode::asymmetric)
        x = {2 * x.num + x.den, 2 * x.den};
    if (mode == interpolation_mode::nearest) {
        const __int128 floor
                = x.num >= 0 ? x.num / x.den : -((-x.num + x.den - 1) / x.den);
        const auto index
                = static_cast<int64_t>(std::clamp<__int128>(floor, 0, src - 1));
        return {index, index, 1, 0};
    }
    if (x.num < 0) x.num = 0;
    const auto low
            = static_cast<int64_t>(std::min<__int128>(x.num / x.den, src - 1));
    if (low == src - 1) return {low, low, 1, 0};
    const __int128 rest = x.num - low * x.den;
    if (rest == 0) return {low, low, 1, 0};
    const auto den = static_cast<double>(x.den);
    return {low, low + 1, static_cast<double>(x.den - rest) / den,
            static_cast<double>(rest) / den};
}

constexpr interpolation_mode modes[]
        = {interpolation_mode::nearest, interpolation_mode::linear};
constexpr coordinate_mode coordinate_modes[] = {coordinate_mode::half_pixel,
        coordinate_mode::align_corners, coordinate_mode::asymmetric};

/// What a map says of every output and input.
struct lists {
    explicit lists(const axis_map &map)
        : weights(map.all_weights<double>()), identity(map.identity) {
        for (int64_t o = 0; o < map.dst; ++o) {
            low.push_back(map.low(o));
            high.push_back(map.high(o));
            low_weight.push_back(map.low_weight(o));
            high_weight.push_back(map.high_weight(o));
        }
        for (int64_t i = 0; i < map.src; ++i) {
            first.push_back(map.first(i));
            count.push_back(map.count(i));
        }
    }
    bool operator==(const lists &) const = default;

    std::vector<int64_t> low;
    std::vector<int64_t> high;
    std::vector<double> low_weight;
    std::vector<double> high_weight;
    std::vector<int64_t> first;
    std::vector<int64_t> count;
    std::vector<double> weights;
    bool identity;
};

/// All that the header promises of the gathered half, given the forward half.
inline void check_gathered(const axis_map &map) {
    const auto src = static_cast<size_t>(map.src);
    ASSERT_LE(map.offset(map.src), 2 * map.dst);
    std::vector<std::vector<std::pair<int64_t, double>>> expected(src);
    for (int64_t o = 0; o < map.dst; ++o) {
        const auto out = static_cast<size_t>(o);
        const auto add = [&](int64_t input, double weight) {
            if (weight != 0)
                expected[static_cast<size_t>(input)].emplace_back(o, weight);
        };
        add(map.low(out), map.low_weight(out));
        add(map.high(out), map.high_weight(out));
    }
    int64_t most = 0;
    for (size_t i = 0; i < src; ++i) {
        ASSERT_EQ(map.count(i), static_cast<int64_t>(expected[i].size()));
        ASSERT_EQ(map.offset(i + 1) - map.offset(i), map.count(i));
        most = std::max(most, map.count(i));
        for (size_t k = 0; k < expected[i].size(); ++k) {
            ASSERT_EQ(expected[i][k].first,
                    map.first(i) + static_cast<int64_t>(k));
            ASSERT_EQ(expected[i][k].second, map.weight(map.offset(i) + k));
        }
    }
    ASSERT_EQ(map.max_count, most);
}

inline void check(interpolation_mode mode, coordinate_mode coordinates,
        int64_t src, int64_t dst) {
    SCOPED_TRACE(std::to_string(src) + " -> " + std::to_string(dst) + " mode "
            + std::to_string(static_cast<int>(mode)) + " coordinates "
            + std::to_string(static_cast<int>(coordinates)));
    const axis_map map
            = make_axis_map(mode, coordinates, {src, dst, false, 1.0F});
    ASSERT_EQ(map.src, src);
    ASSERT_EQ(map.dst, dst);
    bool identity = src == dst;
    for (int64_t o = 0; o < dst; ++o) {
        const auto out = static_cast<size_t>(o);
        const expected_tap e = taps(mode, coordinates, src, dst, o);
        ASSERT_EQ(map.low(out), e.low) << "output " << o;
        ASSERT_EQ(map.high(out), e.high) << "output " << o;
        ASSERT_EQ(map.low_weight(out), e.low_weight) << "output " << o;
        ASSERT_EQ(map.high_weight(out), e.high_weight) << "output " << o;
        identity = identity && e.low == o && e.high_weight == 0;
    }
    ASSERT_EQ(map.identity, identity);
    check_gathered(map);
}

} // namespace gradnn::detail
