// Maps of filters with many taps, and forward maps: what the tables say of each input, or
// forwards of each output, is what axis_filter says of each output, repeating ratios and
// ends included. (interpolation_filters_test compares its weights with the reference's.)
#include <vector>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "kernel/axis_map.hpp"
#include "support/axis_maps.hpp"
#include "support/random.hpp"

namespace gradnn::detail {
namespace {

struct filter_case {
    interpolation_mode mode;
    bool antialias;
    bool exclude_outside;
};

constexpr filter_case filters[] = {{interpolation_mode::nearest, false, false},
        {interpolation_mode::linear, false, false},
        {interpolation_mode::cubic, false, false},
        {interpolation_mode::cubic, false, true},
        {interpolation_mode::linear, true, false},
        {interpolation_mode::linear, true, true},
        {interpolation_mode::cubic, true, true}};

interpolation_axis axis_of(
        const filter_case &filter, int64_t src, int64_t dst) {
    interpolation_axis axis {src, dst};
    axis.antialias = filter.antialias;
    axis.exclude_outside = filter.exclude_outside;
    return axis;
}

/// By what is written: what it is made of, by number, and the weights other than 0.
using matrix = std::vector<std::vector<std::pair<int64_t, double>>>;

matrix by_filter(const filter_case &filter, coordinate_mode coordinates,
        interpolation_axis axis) {
    const bool forward = axis.forward;
    axis_filter taps_of(filter.mode, coordinates, axis);
    matrix rows(static_cast<size_t>(axis.src));
    for (int64_t o = 0; o < (forward ? axis.src : axis.dst); ++o) {
        const auto taps = taps_of.at(o);
        int64_t i = taps.low;
        for (const double weight : taps.weights) {
            if (weight != 0)
                rows[static_cast<size_t>(forward ? o : i)].emplace_back(
                        forward ? i : o, weight);
            ++i;
        }
    }
    return rows;
}

matrix by_map(const axis_map &map) {
    matrix rows(static_cast<size_t>(map.src));
    for (size_t i = 0; i < rows.size(); ++i)
        for (int64_t k = 0; k < map.count(i); ++k) {
            const double weight = map.weight(map.offset(i) + k);
            if (weight != 0) rows[i].emplace_back(map.first(i) + k, weight);
        }
    return rows;
}

void check(const filter_case &filter, coordinate_mode coordinates,
        interpolation_axis axis) {
    SCOPED_TRACE(text("mode ", static_cast<int>(filter.mode), " antialias ",
            filter.antialias, " exclude ", filter.exclude_outside,
            " coordinates ", static_cast<int>(coordinates), " src ", axis.src,
            " dst ", axis.dst, " forward ", axis.forward));
    const axis_map map = make_axis_map(filter.mode, coordinates, axis);
    ASSERT_EQ(map.src, axis.src);
    ASSERT_EQ(map.dst, axis.dst);
    const matrix expected = by_filter(filter, coordinates, axis);
    ASSERT_EQ(by_map(map), expected);
    int64_t most = 0;
    int64_t fed = 0;
    int64_t all = 0;
    for (int64_t i = 0; i < map.src; ++i) {
        most = std::max(most, map.count(i));
        fed += map.count(i) > 0 ? 1 : 0;
        ASSERT_EQ(map.offset(i), all);
        all += map.count(i);
        ASSERT_LE(map.first(i) + map.count(i), map.dst);
    }
    EXPECT_EQ(map.max_count, most);
    EXPECT_EQ(map.fed(), fed);
}

void check_both(const filter_case &filter, coordinate_mode coordinates,
        int64_t src, int64_t dst) {
    interpolation_axis axis = axis_of(filter, src, dst);
    if (is_filtered(filter.mode, axis)) check(filter, coordinates, axis);
    axis = axis_of(filter, dst, src);
    axis.forward = true;
    check(filter, coordinates, axis);
}

TEST(axis_filter, every_small_pair_of_sizes) {
    const int64_t most = test::thinned() ? 9 : 18;
    for (const filter_case &filter : filters)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (int64_t src = 1; src <= most; ++src)
                for (int64_t dst = 1; dst <= most; ++dst) {
                    check_both(filter, coordinates, src, dst);
                    if (HasFatalFailure()) return;
                }
}

// Longer than what tables keep without leaving out what repeats, by ratios with short and
// long periods.
TEST(axis_filter, repeating_ratios) {
    for (const filter_case &filter : filters)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (const auto &[src, dst] :
                    std::vector<std::pair<int64_t, int64_t>> {{1100, 2200},
                            {2200, 1100}, {1401, 2101}, {2100, 1400},
                            {2500, 250}, {2400, 70}, {300, 2400}, {2205, 2400},
                            {2048, 2047}}) {
                check_both(filter, coordinates, src, dst);
                if (HasFatalFailure()) return;
            }
}

TEST(axis_filter, given_ratios_and_scales) {
    for (const filter_case &filter : filters)
        for (const double ratio : {0.5, 2.0, 1.5, 0.3, 1.0, 1e-9, 37.0})
            for (const int64_t dst : {7, 2500})
                for (const int64_t src : {5, 3001})
                    for (const bool forward : {false, true})
                        for (const bool scale : {false, true}) {
                            interpolation_axis axis = axis_of(filter,
                                    forward ? dst : src, forward ? src : dst);
                            axis.forward = forward;
                            if (!is_filtered(filter.mode, axis)) continue;
                            axis.scale_given = scale;
                            axis.scale = static_cast<float>(1 / ratio);
                            axis.ratio_given = !scale;
                            axis.ratio = ratio;
                            check(filter, coordinate_mode::half_pixel, axis);
                            if (HasFatalFailure()) return;
                        }
}

TEST(axis_filter, tables_of_long_axes_are_small) {
    for (const filter_case &filter : filters)
        for (const bool forward : {false, true}) {
            const int64_t n = int64_t {1} << 22;
            interpolation_axis axis
                    = axis_of(filter, forward ? 2 * n : n, forward ? n : 2 * n);
            axis.forward = forward;
            EXPECT_LE(
                    table_rows(filter.mode, coordinate_mode::half_pixel, axis),
                    100);
            const axis_map map = make_axis_map(
                    filter.mode, coordinate_mode::half_pixel, axis);
            EXPECT_EQ(map.fed(), axis.src);
        }
}

TEST(axis_filter, equal_sizes_are_copied) {
    for (const filter_case &filter : filters)
        for (const coordinate_mode coordinates : coordinate_modes)
            for (const int64_t size : {1, 9, 3000}) {
                interpolation_axis axis = axis_of(filter, size, size);
                axis.forward = true;
                const axis_map map
                        = make_axis_map(filter.mode, coordinates, axis);
                EXPECT_TRUE(map.identity);
                EXPECT_TRUE(map.two_taps);
                EXPECT_EQ(map.max_count, 1);
            }
}

// What is left out of tables counts for nothing: 2^27 outputs of four taps each.
TEST(axis_filter, long_axes_that_repeat_are_served) {
    const int64_t n = int64_t {1} << 26;
    const axis_map map = make_axis_map(
            interpolation_mode::cubic, coordinate_mode::half_pixel, {n, 2 * n});
    EXPECT_EQ(map.fed(), n);
    EXPECT_EQ(map.count(n / 2), 8);
}

// 2^60 elements from one output to the next: no table has the filter that these need.
TEST(axis_filter, wide_filters_are_refused) {
    interpolation_axis axis {1000, 1000};
    axis.antialias = true;
    axis.ratio_given = true;
    axis.ratio = 0x1p60;
    try {
        make_axis_map(
                interpolation_mode::linear, coordinate_mode::half_pixel, axis);
        FAIL() << "made";
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::unimplemented);
        EXPECT_NE(std::string(failure.what()).find("1000 to 1000"),
                std::string::npos)
                << failure.what();
    }
}

} // namespace
} // namespace gradnn::detail
