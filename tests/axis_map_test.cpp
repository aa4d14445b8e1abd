// The axis map: against the coordinate formulas in exact rational arithmetic
// of the test's own, for many sizes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "kernel/axis_map.hpp"
#include "support/axis_maps.hpp"
#include "support/random.hpp"

namespace gradnn::detail {
namespace {

using test::random_source;

TEST(axis_map, every_small_pair_of_sizes) {
    const int64_t most = test::thinned() ? 14 : 45;
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

// Maps that keep what repeats once: every output and input of axes whose ratios
// have short and long periods, and ends that do not.
TEST(axis_map, repeating_ratios) {
    const int64_t n = 2048;
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (const auto &[src, dst] :
                    std::vector<std::pair<int64_t, int64_t>> {{n, 2 * n},
                            {2 * n, n}, {n, n}, {n + 1, 2 * n + 1},
                            {3 * n, 2 * n}, {2 * n, 3 * n}, {100 * n, n},
                            {n, 50 * n}, {2400, 7 * 960}, {441 * 8, 480 * 8},
                            {480 * 9, 441 * 9}, {5001, 2501}, {2501, 5001},
                            {3 * 997, 2 * 997}, {4 * 997 + 1, 997 + 1}}) {
                check(mode, coordinates, src, dst);
                if (HasFatalFailure()) return;
            }
    const axis_map twice = make_axis_map(interpolation_mode::linear,
            coordinate_mode::half_pixel, {1 << 21, 1 << 22});
    EXPECT_EQ(twice.fed(), 1 << 21);
    EXPECT_EQ(table_rows(interpolation_mode::linear,
                      coordinate_mode::half_pixel, {1 << 21, 1 << 22}),
            table_rows(interpolation_mode::linear, coordinate_mode::half_pixel,
                    {int64_t {1} << 40, int64_t {1} << 41}));
}

// Ratios that say where outputs go, short of the end or beyond it.
TEST(axis_map, repeating_ratios_that_are_given) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates :
                {coordinate_mode::half_pixel, coordinate_mode::asymmetric})
            for (const double ratio : {0.5, 2.0, 0.75, 1.5, 1.0, 0.125})
                for (const int64_t dst : {2500, 5000, 5003, 10001})
                    for (const int64_t src : {2500, 5001, 7500}) {
                        const axis_map map = make_axis_map(mode, coordinates,
                                {src, dst, false, 1.0F, true, ratio});
                        SCOPED_TRACE(text(ratio, ' ', src, ' ', dst));
                        check_gathered(map);
                        ASSERT_FALSE(HasFatalFailure());
                        // Sums of a few powers of two, exact in double.
                        const bool half
                                = coordinates == coordinate_mode::half_pixel;
                        for (int64_t o = 0; o < dst; ++o) {
                            const double at = half
                                    ? (static_cast<double>(o) + 0.5) * ratio
                                    : static_cast<double>(o) * ratio;
                            const double last = static_cast<double>(src - 1);
                            if (mode == interpolation_mode::nearest) {
                                ASSERT_EQ(static_cast<double>(map.low(o)),
                                        std::min(std::floor(at), last));
                                continue;
                            }
                            const double x = std::clamp(
                                    half ? at - 0.5 : at, 0.0, last);
                            ASSERT_EQ(static_cast<double>(map.low(o))
                                            + map.high_weight(o),
                                    x);
                        }
                    }
}

// Sizes at which products need more than 64 bits would need more memory than
// there is; coordinates near 2^31 are within reach on one side.
TEST(axis_map, few_outputs_of_a_huge_axis) {
    for (const interpolation_mode mode : modes)
        for (const coordinate_mode coordinates : coordinate_modes)
            check(mode, coordinates, test::thinned() ? 400009 : 4000037, 3);
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
                EXPECT_EQ(lists(a), lists(b));
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
                        ASSERT_EQ(map.low(out),
                                std::clamp<int64_t>(index, 0, src - 1));
                        continue;
                    }
                    // The position that the two taps stand for.
                    x = std::clamp<long double>(
                            x, 0, static_cast<long double>(src - 1));
                    const double position = static_cast<double>(map.low(out))
                                    * map.low_weight(out)
                            + static_cast<double>(map.high(out))
                                    * map.high_weight(out);
                    ASSERT_NEAR(position, static_cast<double>(x), 1e-10);
                    ASSERT_NEAR(map.low_weight(out) + map.high_weight(out), 1,
                            1e-15);
                }
            }
}

void expect_equal(const axis_map &a, const axis_map &b) {
    EXPECT_EQ(lists(a), lists(b));
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
                EXPECT_EQ(lists(map).low, std::vector<int64_t>(9, 0));
                EXPECT_EQ(lists(map).low_weight, std::vector<double>(9, 1));
                check_gathered(map);
            }
            for (const double huge : {0x1p60, 0x1.fffffffffffffp59}) {
                std::vector<int64_t> expected(9, 6);
                if (coordinates == coordinate_mode::asymmetric) expected[0] = 0;
                EXPECT_EQ(lists(map_of(huge)).low, expected);
            }
        }
}

// float32 and float64 as a forward computes them; sizes of 1 to 80.
TEST(axis_map, rounded_arithmetic) {
    const int64_t most = test::thinned() ? 16 : 80;
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
                    ASSERT_EQ(single.low(out), index(place * ratio));
                    // A double holds the product of two floats, and the
                    // difference with a half here.
                    const double exact = static_cast<double>(place)
                            * static_cast<double>(ratio);
                    ASSERT_EQ(fused.low(out),
                            half ? index(static_cast<float>(exact - 0.5) + 0.5F)
                                 : index(static_cast<float>(exact)));
                    const double wide = static_cast<double>(src)
                            / static_cast<double>(dst);
                    ASSERT_EQ(twice.low(out),
                            index(static_cast<float>(
                                    static_cast<double>(place) * wide)));
                    differ += single.low(out) != fused.low(out)
                            || single.low(out) != twice.low(out);
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
    EXPECT_EQ(lists(tie).count, (std::vector<int64_t> {20, 21}));
    const axis_map corners = make_axis_map(interpolation_mode::linear,
            coordinate_mode::align_corners, {2, 10, false, 1.0F});
    EXPECT_EQ(lists(corners).count, (std::vector<int64_t> {9, 9}));
    EXPECT_EQ(lists(corners).first, (std::vector<int64_t> {0, 1}));
    // A ratio of many: the last output sees the last element alone.
    EXPECT_EQ(corners.low(9), 1);
    EXPECT_EQ(corners.high_weight(9), 0);
}

} // namespace
} // namespace gradnn::detail
