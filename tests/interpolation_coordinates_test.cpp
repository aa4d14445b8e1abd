// InterpolateBackward: what decides where an output's taps lie. Scales, sizes and
// ratios that are given, and coordinates rounded as a framework rounds them.
#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "support/interpolation_kernel.hpp"

namespace gradnn::test {
namespace {

class interpolation_coordinates : public interpolation_kernel {};

// scale_rule given: coordinates come from scales and not from dst / src.
TEST_P(interpolation_coordinates, given_scales) {
    struct scaled {
        std::vector<int64_t> src;
        std::vector<int64_t> dst;
        std::vector<float> scales;
    };
    const scaled all[] = {
            {{4, 4}, {6, 6}, {1.7F, 1.7F}},
            {{5}, {8}, {1.65F}},
            {{5}, {4}, {0.85F}},
            {{3, 3, 4}, {4, 5, 9}, {1.5F, 1.9F, 2.3F}},
            {{7, 9}, {3, 5}, {0.45F, 0.6F}},
            {{10}, {3}, {0.3F}},
            // nearest instead of floor: 5 * 1.55 = 7.75
            {{5}, {8}, {1.55F}},
            // 10 * 0.1F is above 1, floored and rounded alike
            {{10}, {1}, {0.1F}},
            {{1}, {7}, {7.3F}},
            {{64}, {100}, {1.5703125F}},
    };
    for (const scaled &s : all)
        for (const auto &[mode, coordinates] : all_coordinates)
            for (const char *rule : {"given", "shape_ratio"})
                for (const data_type type : float_types()) {
                    SCOPED_TRACE(std::string(mode) + " " + coordinates + " "
                            + rule + " " + to_string(type) + " scale "
                            + std::to_string(s.scales[0]));
                    op the_op = interpolation_op({"scaled", 2, 3, s.src, s.dst},
                            {mode, coordinates, size_source::scales_attribute},
                            layouts()[0], type);
                    the_op.set_attr(op::attr::scales, s.scales);
                    the_op.set_attr<std::string>(op::attr::scale_rule, rule);
                    run_forced(the_op, the_engine(), kernel(), 5);
                }
}

// 4 -> 6 by 1.7 half_pixel: output 5 lies at 5.5 / 1.7 - 0.5 = 2.735, by the
// shapes at 5.5 / 1.5 - 0.5 = 3.17.
TEST_P(interpolation_coordinates, the_scale_rule_decides) {
    std::vector<double> diff_dst(6, 0.0);
    diff_dst[5] = 1;
    for (const bool given : {true, false}) {
        op the_op = line(4, 6,
                {"linear", "half_pixel", size_source::scales_attribute},
                data_type::f64);
        the_op.set_attr(op::attr::scales, std::vector<float> {1.7F});
        if (given) the_op.set_attr<std::string>(op::attr::scale_rule, "given");
        if (refuses(the_op)) GTEST_SKIP() << kernel() << " refuses it";
        const auto out = run(the_op, diff_dst);
        const double x = 5.5 / static_cast<double>(1.7F) - 0.5;
        EXPECT_NEAR(out[2], given ? 3 - x : 0, 1e-14);
        EXPECT_NEAR(out[3], given ? x - 2 : 1, 1e-14);
    }
}

// sizes given: scales is ignored, whatever the rule says.
TEST_P(interpolation_coordinates, sizes_make_scales_void) {
    for (const bool as_input : {false, true})
        for (const char *rule : {"given", "shape_ratio"}) {
            SCOPED_TRACE(
                    std::string(rule) + (as_input ? " input" : " attribute"));
            op the_op = line(4, 6,
                    {"linear", "half_pixel",
                            as_input ? size_source::sizes_input
                                     : size_source::sizes_attribute});
            the_op.set_attr(op::attr::scales, std::vector<float> {1.9F});
            the_op.set_attr<std::string>(op::attr::scale_rule, rule);
            EXPECT_TRUE(run_forced(the_op, the_engine(), kernel(), 6)
                    || !kernel().empty());
        }
}

op by_ratio(op the_op, const std::vector<double> &ratios) {
    the_op.set_attr<std::string>(op::attr::scale_rule, "ratios");
    return the_op.set_attr(op::attr::ratios, ratios);
}

// Axes so long that kernels keep no table of what does not repeat: ratios of one to
// nine, rows that are summed first, and ratios that leave the last elements without an
// output or the last outputs beyond them; one plane after another, and channels of
// less than a vector, of one and of several within a column.
TEST_P(interpolation_coordinates, long_axes_that_repeat_nothing) {
    const interpolation_case all[] = {
            {"alike", 1, 2, {131101}, {131203}},
            {"three", 1, 1, {90001}, {300017}},
            {"nine", 1, 1, {30011}, {270029}},
            {"smaller", 1, 1, {250007}, {70001}},
            {"summed", 1, 1, {3, 131101}, {5, 131203}},
            {"summed_nine", 1, 1, {3, 30011}, {2, 270029}},
    };
    size_t case_number = 0;
    const auto run_next = [&](interpolation_case c, double ratio,
                                  const layout &l) {
        // Of 24 modes and types some, in each case others.
        size_t turn = case_number++;
        for (const auto &[mode, coordinates] : all_coordinates)
            for (const data_type type : float_types()) {
                const size_t apart = c.c > 2 ? thinned() ? 23 : 7
                        : thinned()          ? 11
                                             : 3;
                if (turn++ % apart != 0) continue;
                SCOPED_TRACE(c.name + " " + mode + " " + coordinates + " "
                        + to_string(type));
                op the_op = interpolation_op(c, {mode, coordinates}, l, type);
                if (ratio != 0) the_op = by_ratio(the_op, {ratio});
                run_forced(the_op, the_engine(), kernel(), turn);
            }
    };
    const auto run_all = [&](const layout &l, std::vector<int64_t> channels) {
        size_t number = 0;
        const auto with_channels = [&](interpolation_case c) {
            c.c = channels[number++ % channels.size()];
            c.name += " " + l.name + " " + std::to_string(c.c);
            return c;
        };
        for (const interpolation_case &c : all)
            run_next(with_channels(c), 0, l);
        for (const double ratio : {0.99912345678, 0.99989, 1.00000012345})
            run_next(with_channels(all[0]), ratio, l);
    };
    run_all(layouts()[0], {1, 2});
    run_all(layouts()[1], {8, 3, 2, 20, 5});
}

op rounded(op the_op, const std::string &arithmetic) {
    return the_op.set_attr(op::attr::coordinate_arithmetic, arithmetic);
}

// Which element output o was read from, where forwards differ.
TEST_P(interpolation_coordinates, coordinate_arithmetic_decides) {
    struct example {
        int64_t src;
        int64_t dst;
        const char *coordinates;
        int64_t output;
        double ratio; ///< 0: none given
        int64_t exact;
        int64_t float32;
        int64_t float32_fma;
        int64_t float64;
    };
    const example all[] = {
            // 23 * 14 / 46 = 7; 14 / 46 in f32 is below the quotient.
            {14, 46, "asymmetric", 23, 0, 7, 6, 6, 7},
            {26, 22, "asymmetric", 11, 0, 13, 12, 12, 13},
            // 20.5 * 2 / 41 = 1
            {2, 41, "half_pixel", 20, 0, 1, 0, 1, 1},
            // 0.1 is below 1 / 10 in neither type, 1 / 0.1 rounds to 10.
            {20, 2, "asymmetric", 1, 1 / 0.1, 10, 10, 10, 10},
            // A ratio whose product with 2 is 2 - 2^-52: rounded to f32, 2.
            {5, 4, "asymmetric", 2, 1 - 0x1p-53, 1, 2, 2, 2},
            {5, 4, "half_pixel", 1, 2.0 / 1.5 * (1 - 0x1p-52), 1, 2, 2, 2},
            // Sizes do not decide: equal ones, by 1 / 1.3.
            {3, 3, "asymmetric", 2, 1 / 1.3, 1, 1, 1, 1},
            {3, 3, "asymmetric", 2, 1.0, 2, 2, 2, 2},
    };
    int accepted = 0;
    for (const example &e : all)
        for (const auto &[arithmetic, index] :
                {std::pair {"exact", e.exact}, std::pair {"float32", e.float32},
                        std::pair {"float32_fma", e.float32_fma},
                        std::pair {"float64", e.float64}}) {
            SCOPED_TRACE(std::to_string(e.src) + " -> " + std::to_string(e.dst)
                    + " " + arithmetic);
            op the_op = rounded(
                    line(e.src, e.dst, {"nearest", e.coordinates}), arithmetic);
            if (e.ratio != 0) the_op = by_ratio(the_op, {e.ratio});
            if (refuses(the_op)) continue;
            ++accepted;
            std::vector<double> diff_dst(static_cast<size_t>(e.dst), 0.0);
            diff_dst[static_cast<size_t>(e.output)] = 1;
            std::vector<double> expected(static_cast<size_t>(e.src), 0.0);
            expected[static_cast<size_t>(index)] = 1;
            EXPECT_EQ(run(the_op, diff_dst), expected);
            EXPECT_TRUE(run_forced(the_op, the_engine(), kernel(), 3));
        }
    if (accepted == 0) GTEST_SKIP() << kernel() << " refuses them";
}

// Every arithmetic, with and without ratios, of all kinds of shapes.
TEST_P(interpolation_coordinates, rounded_coordinates) {
    struct shape {
        std::vector<int64_t> src;
        std::vector<int64_t> dst;
        std::vector<double> ratios;
    };
    const shape all[] = {{{14}, {46}, {1 / 3.3}}, {{28, 14}, {46, 46}, {}},
            {{26, 8}, {22, 16}, {1 / 0.85, 0.5}},
            {{2, 12}, {41, 24}, {1 / 20.7, 1 / 2.4}},
            {{16, 16}, {32, 32}, {0.5, 0.5}}, {{64, 20}, {38, 2}, {}},
            {{3, 2, 14}, {3, 41, 46}, {1 / 1.3, 1.0, 0.3}},
            {{9, 40}, {9, 80}, {1 / 1.1, 1 / 2.02}},
            {{7, 9}, {5, 4}, {1e-18, 1e18}}};
    for (const shape &s : all)
        for (const char *coordinates : {"half_pixel", "asymmetric"})
            for (const char *arithmetic :
                    {"exact", "float32", "float32_fma", "float64"})
                for (const layout &l : {layouts()[0], layouts()[1]})
                    for (const data_type type : float_types())
                        for (const bool given : {false, true}) {
                            if (given && s.ratios.empty()) continue;
                            if (thinned() && type == data_type::f16) continue;
                            SCOPED_TRACE(std::to_string(s.src[0]) + " -> "
                                    + std::to_string(s.dst[0]) + " "
                                    + coordinates + " " + arithmetic + " "
                                    + l.name + " " + to_string(type)
                                    + (given ? " ratios" : ""));
                            op the_op = rounded(
                                    interpolation_op(
                                            {"rounded", 2, 5, s.src, s.dst},
                                            {"nearest", coordinates}, l, type),
                                    arithmetic);
                            if (given) the_op = by_ratio(the_op, s.ratios);
                            run_forced(the_op, the_engine(), kernel(), 7);
                        }
}

// 4 -> 6 by 0.6 half_pixel: output 5 lies at 5.5 * 0.6 - 0.5 = 2.8. Sizes and
// scales beside it do not decide.
TEST_P(interpolation_coordinates, ratios_decide) {
    std::vector<double> diff_dst(6, 0.0);
    diff_dst[5] = 1;
    for (const size_source source : {size_source::sizes_attribute,
                 size_source::sizes_input, size_source::scales_attribute}) {
        const op the_op = by_ratio(
                line(4, 6, {"linear", "half_pixel", source}, data_type::f64),
                {0.6});
        if (refuses(the_op)) GTEST_SKIP() << kernel() << " refuses it";
        const auto out = run(the_op, diff_dst);
        EXPECT_NEAR(out[1], 0, 1e-14);
        EXPECT_NEAR(out[2], 0.2, 1e-14);
        EXPECT_NEAR(out[3], 0.8, 1e-14);
    }
}

// Ratios of linear modes, against the reference.
TEST_P(interpolation_coordinates, given_ratios) {
    struct shape {
        std::vector<int64_t> src;
        std::vector<int64_t> dst;
        std::vector<double> ratios;
    };
    const shape all[] = {{{4, 4}, {6, 6}, {1 / 1.7, 1 / 1.7}},
            {{5}, {8}, {1 / 1.65}}, {{10}, {3}, {1 / 0.3}},
            {{3, 3, 4}, {4, 5, 9}, {1 / 1.5, 1.0, 0.4347826086956522}},
            {{12, 16}, {24, 32}, {0.5, 0.5}}, {{8, 9}, {8, 9}, {1.0, 1.0}},
            {{7, 9}, {3, 5}, {1e-18, 1e18}}};
    for (const shape &s : all)
        for (const auto &[mode, coordinates] : all_coordinates)
            for (const layout &l : {layouts()[0], layouts()[1]})
                for (const data_type type : float_types()) {
                    SCOPED_TRACE(std::string(mode) + " " + coordinates + " "
                            + l.name + " " + to_string(type) + " ratio "
                            + std::to_string(s.ratios[0]));
                    run_forced(by_ratio(interpolation_op(
                                                {"ratios", 2, 3, s.src, s.dst},
                                                {mode, coordinates}, l, type),
                                       s.ratios),
                            the_engine(), kernel(), 9);
                }
}

INSTANTIATE_TEST_SUITE_P(kernels, interpolation_coordinates,
        testing::ValuesIn(interpolation_rows()), name_of);

} // namespace
} // namespace gradnn::test
