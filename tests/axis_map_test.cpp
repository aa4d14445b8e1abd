// The axis map: against the coordinate formulas in exact rational arithmetic
// of the test's own, for many sizes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "axis_map.hpp"
#include "support/random.hpp"

namespace gradnn::detail {
namespace {

using test::random_source;

/// Numerator and denominator of the coordinate of output o, from dst / src.
struct fraction {
    __int128 num;
    __int128 den;
};

fraction coordinate(coordinate_mode mode, int64_t src, int64_t dst, int64_t o) {
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

expected_tap taps(interpolation_mode mode, coordinate_mode coordinates,
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

/// All that the header promises of the gathered half, given the forward half.
void check_gathered(const axis_map &map) {
    const auto src = static_cast<size_t>(map.src);
    ASSERT_EQ(map.first.size(), src);
    ASSERT_EQ(map.count.size(), src);
    ASSERT_EQ(map.offset.size(), src + 1);
    ASSERT_LE(static_cast<int64_t>(map.weights.size()), 2 * map.dst);
    std::vector<std::vector<std::pair<int64_t, double>>> expected(src);
    for (int64_t o = 0; o < map.dst; ++o) {
        const auto out = static_cast<size_t>(o);
        const auto add = [&](int64_t input, double weight) {
            if (weight != 0)
                expected[static_cast<size_t>(input)].emplace_back(o, weight);
        };
        add(map.low[out], map.low_weight[out]);
        add(map.high[out], map.high_weight[out]);
    }
    int64_t most = 0;
    for (size_t i = 0; i < src; ++i) {
        ASSERT_EQ(map.count[i], static_cast<int64_t>(expected[i].size()));
        ASSERT_EQ(map.offset[i + 1] - map.offset[i], map.count[i]);
        most = std::max(most, map.count[i]);
        for (size_t k = 0; k < expected[i].size(); ++k) {
            ASSERT_EQ(expected[i][k].first,
                    map.first[i] + static_cast<int64_t>(k));
            ASSERT_EQ(expected[i][k].second,
                    map.weights[static_cast<size_t>(map.offset[i]) + k]);
        }
    }
    ASSERT_EQ(map.max_count, most);
}

void check(interpolation_mode mode, coordinate_mode coordinates, int64_t src,
        int64_t dst) {
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
        ASSERT_EQ(map.low[out], e.low) << "output " << o;
        ASSERT_EQ(map.high[out], e.high) << "output " << o;
        ASSERT_EQ(map.low_weight[out], e.low_weight) << "output " << o;
        ASSERT_EQ(map.high_weight[out], e.high_weight) << "output " << o;
        identity = identity && e.low == o && e.high_weight == 0;
    }
    ASSERT_EQ(map.identity, identity);
    check_gathered(map);
}

TEST(axis_map, every_small_pair_of_sizes) {
    const int64_t most = test::thinned() ? 20 : 45;
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (int64_t src = 1; src <= most; ++src)
                for (int64_t dst = 1; dst <= most; ++dst) {
                    check(mode, coordinates, src, dst);
                    if (HasFatalFailure()) return;
                }
}

TEST(axis_map, large_and_prime_sizes) {
    random_source numbers(7);
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes) {
            for (int i = 0; i < 20; ++i) {
                check(mode, coordinates, numbers.integer(1, 5000),
                        numbers.integer(1, 5000));
                if (HasFatalFailure()) return;
            }
            check(mode, coordinates, 65537, 100003);
            check(mode, coordinates, 100003, 65537);
        }
}

// Sizes at which products need more than 64 bits would need more memory than
// there is; coordinates near 2^31 are within reach on one side.
TEST(axis_map, few_outputs_of_a_huge_axis) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes)
            check(mode, coordinates, 4000037, 3);
}

TEST(axis_map, identity) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes) {
            EXPECT_TRUE(make_axis_map(mode, coordinates, {9, 9, false, 1.0F})
                                .identity);
            EXPECT_FALSE(make_axis_map(mode, coordinates, {9, 8, false, 1.0F})
                                 .identity);
        }
    // Equal sizes with another scale are no identity.
    EXPECT_FALSE(make_axis_map(interpolation_mode::linear,
            coordinate_mode::half_pixel, {9, 9, true, 1.05F})
                         .identity);
    EXPECT_TRUE(make_axis_map(interpolation_mode::linear,
            coordinate_mode::half_pixel, {9, 9, true, 1.0F})
                        .identity);
}

// A scale that is a ratio of the shapes and exact in f32 changes nothing.
TEST(axis_map, exact_scale_is_the_shape_ratio) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (const auto &[src, dst] :
                    std::vector<std::pair<int64_t, int64_t>> {{4, 8}, {8, 4},
                            {8, 12}, {16, 10}, {64, 1}, {1, 64}, {32, 37}}) {
                const auto scale = static_cast<float>(
                        static_cast<double>(dst) / static_cast<double>(src));
                const axis_map a = make_axis_map(
                        mode, coordinates, {src, dst, false, 1.0F});
                const axis_map b = make_axis_map(
                        mode, coordinates, {src, dst, true, scale});
                EXPECT_EQ(a.low, b.low);
                EXPECT_EQ(a.high, b.high);
                EXPECT_EQ(a.low_weight, b.low_weight);
                EXPECT_EQ(a.high_weight, b.high_weight);
                check_gathered(b);
            }
}

// Coordinates from a scale, in long double: taps agree wherever the long
// double is not within rounding of a boundary, weights to its precision.
TEST(axis_map, given_scales) {
    random_source numbers(11);
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates :
                {coordinate_mode::half_pixel, coordinate_mode::asymmetric})
            for (int i = 0; i < 300; ++i) {
                const int64_t src = numbers.integer(1, 200);
                const auto scale
                        = static_cast<float>(std::exp2(4 * numbers.value()));
                const auto dst = std::max<int64_t>(1,
                        static_cast<int64_t>(static_cast<double>(src)
                                * static_cast<double>(scale)));
                const axis_map map = make_axis_map(
                        mode, coordinates, {src, dst, true, scale});
                check_gathered(map);
                for (int64_t o = 0; o < dst; ++o) {
                    const auto out = static_cast<size_t>(o);
                    const long double s = scale;
                    long double x = coordinates == coordinate_mode::half_pixel
                            ? (static_cast<long double>(o) + 0.5L) / s - 0.5L
                            : static_cast<long double>(o) / s;
                    if (mode == interpolation_mode::nearest) {
                        if (coordinates == coordinate_mode::half_pixel)
                            x += 0.5L;
                        if (std::fabs(x - std::round(x)) < 1e-12L) continue;
                        const auto index = static_cast<int64_t>(std::floor(x));
                        ASSERT_EQ(map.low[out],
                                std::clamp<int64_t>(index, 0, src - 1));
                        continue;
                    }
                    // The position that the two taps stand for.
                    x = std::clamp<long double>(
                            x, 0, static_cast<long double>(src - 1));
                    const double position = static_cast<double>(map.low[out])
                                    * map.low_weight[out]
                            + static_cast<double>(map.high[out])
                                    * map.high_weight[out];
                    ASSERT_NEAR(position, static_cast<double>(x), 1e-10);
                    ASSERT_NEAR(map.low_weight[out] + map.high_weight[out], 1,
                            1e-15);
                }
            }
}

void expect_equal(const axis_map &a, const axis_map &b) {
    EXPECT_EQ(a.low, b.low);
    EXPECT_EQ(a.high, b.high);
    EXPECT_EQ(a.low_weight, b.low_weight);
    EXPECT_EQ(a.high_weight, b.high_weight);
    EXPECT_EQ(a.first, b.first);
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_EQ(a.identity, b.identity);
}

interpolation_axis by_ratio(int64_t src, int64_t dst, double ratio) {
    interpolation_axis axis {src, dst};
    axis.ratio_given = true;
    axis.ratio = ratio;
    return axis;
}

interpolation_axis rounded(
        int64_t src, int64_t dst, coordinate_arithmetic arithmetic) {
    interpolation_axis axis {src, dst};
    axis.arithmetic = arithmetic;
    return axis;
}

// A ratio that is the inverse of an exact scale, or that of the shapes.
TEST(axis_map, exact_ratio_is_the_scale) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (const auto &[src, dst, ratio] :
                    std::vector<std::tuple<int64_t, int64_t, double>> {
                            {4, 8, 0.5}, {8, 4, 2}, {10, 16, 0.625},
                            {64, 1, 64}, {1, 64, 0x1p-6}, {9, 9, 1}}) {
                const axis_map by = make_axis_map(
                        mode, coordinates, by_ratio(src, dst, ratio));
                expect_equal(make_axis_map(mode, coordinates, {src, dst}), by);
                check_gathered(by);
                // Sizes that say something else.
                const auto scale = static_cast<float>(1 / ratio);
                if (coordinates == coordinate_mode::align_corners
                        || static_cast<double>(scale) * ratio != 1)
                    continue;
                expect_equal(make_axis_map(mode, coordinates,
                                     {src + 3, dst, true, scale}),
                        make_axis_map(mode, coordinates,
                                by_ratio(src + 3, dst, ratio)));
            }
}

// Ratios at the ends of what is allowed: everything on the first element, or
// all but one output beyond the last.
TEST(axis_map, extreme_ratios) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates :
                {coordinate_mode::half_pixel, coordinate_mode::asymmetric}) {
            const auto map_of = [&](double ratio) {
                return make_axis_map(mode, coordinates, by_ratio(7, 9, ratio));
            };
            for (const double tiny : {0x1p-60, 0x1.fffffffffffffp-60}) {
                const axis_map map = map_of(tiny);
                EXPECT_EQ(map.low, std::vector<int64_t>(9, 0));
                EXPECT_EQ(map.low_weight, std::vector<double>(9, 1));
                check_gathered(map);
            }
            for (const double huge : {0x1p60, 0x1.fffffffffffffp59}) {
                std::vector<int64_t> expected(9, 6);
                if (coordinates == coordinate_mode::asymmetric) expected[0] = 0;
                EXPECT_EQ(map_of(huge).low, expected);
            }
        }
}

// float32 and float64 as a forward computes them; sizes of 1 to 80.
TEST(axis_map, rounded_arithmetic) {
    const int64_t most = test::thinned() ? 24 : 80;
    int64_t differ = 0;
    for (int64_t src = 1; src <= most; ++src)
        for (int64_t dst = 1; dst <= most; ++dst)
            for (const bool half : {true, false}) {
                const coordinate_mode coordinates = half
                        ? coordinate_mode::half_pixel
                        : coordinate_mode::asymmetric;
                const auto map_of = [&](coordinate_arithmetic arithmetic) {
                    axis_map map = make_axis_map(interpolation_mode::nearest,
                            coordinates, rounded(src, dst, arithmetic));
                    check_gathered(map);
                    return map;
                };
                const axis_map single = map_of(coordinate_arithmetic::float32);
                const axis_map fused
                        = map_of(coordinate_arithmetic::float32_fma);
                const axis_map twice = map_of(coordinate_arithmetic::float64);
                const float ratio
                        = static_cast<float>(src) / static_cast<float>(dst);
                for (int64_t o = 0; o < dst; ++o) {
                    const auto out = static_cast<size_t>(o);
                    const float place
                            = static_cast<float>(o) + (half ? 0.5F : 0.0F);
                    const auto index = [&](float x) {
                        return std::min(
                                static_cast<int64_t>(std::floor(x)), src - 1);
                    };
                    ASSERT_EQ(single.low[out], index(place * ratio));
                    // A double holds the product of two floats, and the
                    // difference with a half here.
                    const double exact = static_cast<double>(place)
                            * static_cast<double>(ratio);
                    ASSERT_EQ(fused.low[out],
                            half ? index(static_cast<float>(exact - 0.5) + 0.5F)
                                 : index(static_cast<float>(exact)));
                    const double wide = static_cast<double>(src)
                            / static_cast<double>(dst);
                    ASSERT_EQ(twice.low[out],
                            index(static_cast<float>(
                                    static_cast<double>(place) * wide)));
                    differ += single.low[out] != fused.low[out]
                            || single.low[out] != twice.low[out];
                }
            }
    EXPECT_GT(differ, test::thinned() ? -1 : 10);
}

// Where rounding changes nothing the map is the exact one, so that kernels see
// no difference.
TEST(axis_map, rounded_arithmetic_of_even_ratios_is_exact) {
    for (const auto &[src, dst] : std::vector<std::pair<int64_t, int64_t>> {
                 {224, 448}, {448, 224}, {7, 28}, {9, 9}, {320, 160}})
        for (const coordinate_mode coordinates :
                {coordinate_mode::half_pixel, coordinate_mode::asymmetric})
            for (const auto arithmetic : {coordinate_arithmetic::float32,
                         coordinate_arithmetic::float32_fma,
                         coordinate_arithmetic::float64})
                expect_equal(make_axis_map(interpolation_mode::nearest,
                                     coordinates, {src, dst}),
                        make_axis_map(interpolation_mode::nearest, coordinates,
                                rounded(src, dst, arithmetic)));
}

// The famous ones.
TEST(axis_map, named_examples) {
    const axis_map tie = make_axis_map(interpolation_mode::nearest,
            coordinate_mode::half_pixel, {2, 41, false, 1.0F});
    EXPECT_EQ(tie.count, (std::vector<int64_t> {20, 21}));
    const axis_map corners = make_axis_map(interpolation_mode::linear,
            coordinate_mode::align_corners, {2, 10, false, 1.0F});
    EXPECT_EQ(corners.count, (std::vector<int64_t> {9, 9}));
    EXPECT_EQ(corners.first, (std::vector<int64_t> {0, 1}));
    // A ratio of many: the last output sees the last element alone.
    EXPECT_EQ(corners.low.back(), 1);
    EXPECT_EQ(corners.high_weight.back(), 0);
}

} // namespace
} // namespace gradnn::detail
