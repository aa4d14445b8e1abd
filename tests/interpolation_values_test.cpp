// InterpolateBackward: values that a comparison with random data does not
// reach. Coordinates on ties, given scales, Inf and NaN, inputs no one reads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using param = std::tuple<engine::kind, std::string>;

std::vector<param> kernels() {
    std::vector<param> all;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "interpolation"))
            if (kernel
                    != "interpolation.copy") // takes no axis that is resampled
                all.emplace_back(kind, kernel);
    return all;
}

class interpolation_values : public testing::TestWithParam<param> {
protected:
    engine the_engine() const { return shared_engine(std::get<0>(GetParam())); }
    std::string kernel() const { return std::get<1>(GetParam()); }

    /// Some kernels take certain ratios and layouts alone.
    bool refuses(const op &the_op) const {
        return !accepts(the_op, the_engine(), kernel());
    }

    std::vector<double> run(
            const op &the_op, const std::vector<double> &diff_dst) const {
        const forced_kernel forced(kernel());
        values_list inputs = random_inputs(the_op, 1);
        inputs[1] = diff_dst;
        op_run r(the_op, the_engine(), inputs);
        r.execute();
        EXPECT_EQ(r.output_tensor(0).outside_damage(), "");
        return r.output(0);
    }
};

op line(int64_t src, int64_t dst, const interpolation_choice &choice,
        data_type type = data_type::f32) {
    return interpolation_op(
            {"line", 1, 1, {src}, {dst}}, choice, layouts()[0], type);
}

// 2 -> 41 nearest half_pixel: output 20 lies at exactly 0.5 + 0.5, which is
// element 1; a float coordinate puts it at 0.
TEST_P(interpolation_values, nearest_tie_of_two_to_fortyone) {
    if (refuses(line(2, 41, {"nearest", "half_pixel"})))
        GTEST_SKIP() << kernel() << " refuses it";
    for (const data_type type : float_types()) {
        const auto out = run(line(2, 41, {"nearest", "half_pixel"}, type),
                std::vector<double>(41, 1.0));
        EXPECT_EQ(out, (std::vector<double> {20, 21})) << to_string(type);
    }
}

// align_corners 2 -> 10: every output touches both elements but the ends.
TEST_P(interpolation_values, align_corners_two_to_ten) {
    if (refuses(line(2, 10, {"linear", "align_corners"})))
        GTEST_SKIP() << kernel() << " refuses it";
    const auto out = run(line(2, 10, {"linear", "align_corners"}),
            std::vector<double>(10, 9.0));
    ASSERT_EQ(out.size(), 2U);
    EXPECT_NEAR(out[0], 45, 1e-5);
    EXPECT_NEAR(out[1], 45, 1e-5);
}

// A gradient on one output comes back on its two taps, in closed form.
TEST_P(interpolation_values, taps_of_single_outputs) {
    constexpr int64_t src = 5;
    constexpr int64_t dst = 7;
    if (refuses(line(src, dst, {"linear", "asymmetric"})))
        GTEST_SKIP() << kernel() << " refuses it";
    for (int64_t o = 0; o < dst; ++o) {
        std::vector<double> diff_dst(dst, 0.0);
        diff_dst[static_cast<size_t>(o)] = 1.0;
        const auto out
                = run(line(src, dst, {"linear", "asymmetric"}, data_type::f64),
                        diff_dst);
        // x = o * 5 / 7
        const int64_t low = o * src / dst;
        const double rest = static_cast<double>(o * src % dst) / dst;
        std::vector<double> expected(src, 0.0);
        expected[static_cast<size_t>(low)] += 1 - rest;
        expected[static_cast<size_t>(std::min(low + 1, src - 1))] += rest;
        for (size_t i = 0; i < out.size(); ++i)
            EXPECT_NEAR(out[i], expected[i], 1e-15) << "output " << o;
    }
}

struct coordinates_case {
    const char *mode;
    const char *coordinates;
};
constexpr coordinates_case all_coordinates[] = {
        {"nearest", "half_pixel"},
        {"nearest", "align_corners"},
        {"nearest", "asymmetric"},
        {"linear", "half_pixel"},
        {"linear", "align_corners"},
        {"linear", "asymmetric"},
};

// An Inf or NaN reaches the elements that its taps name and no others.
TEST_P(interpolation_values, infinities_stay_where_taps_put_them) {
    const interpolation_case shapes[] = {
            {"up", 1, 3, {4, 5}, {8, 10}},
            {"ragged", 1, 2, {6, 7}, {13, 5}},
            {"identity", 1, 2, {5, 6}, {5, 6}},
            {"align", 1, 2, {3, 4}, {5, 7}},
            {"down", 1, 2, {9, 8}, {3, 4}},
            {"wide", 1, 9, {6, 40}, {12, 80}},
            {"deep", 1, 2, {3, 2, 3}, {6, 5, 3}},
            {"strips", 1, 17, {3, 10}, {6, 20}},
            {"pixels", 1, 3, {3, 8}, {6, 16}},
    };
    random_source numbers(42);
    int accepted = 0;
    for (const interpolation_case &shape : shapes)
        for (const auto &[mode, coordinates] : all_coordinates)
            for (size_t which = 0; which < 2; ++which)
                for (const data_type type : float_types()) {
                    const layout &l = layouts()[which];
                    SCOPED_TRACE(shape.name + " " + mode + " " + coordinates
                            + " " + l.name + " " + to_string(type));
                    const op the_op = interpolation_op(
                            shape, {mode, coordinates}, l, type);
                    if (!accepts(the_op, the_engine(), kernel())) continue;
                    ++accepted;
                    values_list inputs = random_inputs(the_op, 3);
                    for (const double special : {infinity, -infinity, nan})
                        for (int i = 0; i < 2; ++i)
                            inputs[1][static_cast<size_t>(numbers.integer(0,
                                    static_cast<int64_t>(inputs[1].size())
                                            - 1))]
                                    = special;
                    const forced_kernel forced(kernel());
                    op_run r(the_op, the_engine(), inputs);
                    r.execute();
                    const auto out = r.output(0);
                    const auto expected = r.reference()[0].values;
                    ASSERT_EQ(out.size(), expected.size());
                    for (size_t e = 0; e < out.size(); ++e) {
                        ASSERT_EQ(std::isnan(out[e]), std::isnan(expected[e]))
                                << "element " << e;
                        ASSERT_EQ(std::isinf(out[e]), std::isinf(expected[e]))
                                << "element " << e;
                        if (std::isinf(out[e])) {
                            ASSERT_EQ(out[e], expected[e]) << "element " << e;
                        }
                    }
                }
    EXPECT_GT(accepted, 0);
}

// Near the ends of rows some taps are missing. What stands in for them, and what
// the caller's workspace held before, is not to reach a result.
TEST_P(interpolation_values, ends_of_rows_in_a_dirty_workspace) {
    const interpolation_case shapes[] = {
            {"twice", 1, 16, {3, 33}, {6, 66}},
            {"four_times", 1, 16, {3, 33}, {12, 132}},
            {"strips", 1, 16, {4500}, {9000}},
            {"long_strips", 1, 16, {3000}, {12000}},
    };
    int accepted = 0;
    for (const interpolation_case &shape : shapes)
        for (const auto &[mode, coordinates] : all_coordinates)
            for (const data_type type : float_types()) {
                SCOPED_TRACE(shape.name + " " + mode + " " + coordinates + " "
                        + to_string(type));
                const op the_op = interpolation_op(
                        shape, {mode, coordinates}, layouts()[0], type);
                if (refuses(the_op)) continue;
                ++accepted;
                values_list inputs = random_inputs(the_op, 4);
                // A NaN in one of the first or last eight columns of each plane.
                const size_t planes = 16;
                const auto columns = static_cast<size_t>(shape.dst.back());
                const size_t plane = inputs[1].size() / planes;
                for (size_t p = 0; p < planes; ++p)
                    inputs[1][p * plane + (p < 8 ? p : columns - planes + p)]
                            = nan;
                const forced_kernel forced(kernel());
                op_run r(the_op, the_engine(), inputs);
                device_memory workspace(
                        the_engine(), r.compiled().get_workspace_size() + 1);
                const std::vector<std::byte> dirt(
                        workspace.size(), std::byte {0xff});
                workspace.write(dirt.data());
                stream s(the_engine());
                r.output_tensor(0).poison();
                r.compiled().execute(s, r.input_tensors(), r.output_tensors(),
                        workspace.data());
                s.wait();
                const auto out = r.output(0);
                const auto expected = r.reference()[0].values;
                ASSERT_EQ(out.size(), expected.size());
                for (size_t e = 0; e < out.size(); ++e)
                    ASSERT_EQ(std::isnan(out[e]), std::isnan(expected[e]))
                            << "element " << e;
            }
    // Some of the GPU's take other layouts or shorter rows alone.
    if (accepted == 0 && std::get<0>(GetParam()) == engine::kind::gpu)
        GTEST_SKIP() << kernel() << " takes none of these";
    EXPECT_GT(accepted, 0);
}

// scale_rule given: coordinates come from scales and not from dst / src.
TEST_P(interpolation_values, given_scales) {
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
TEST_P(interpolation_values, the_scale_rule_decides) {
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
TEST_P(interpolation_values, sizes_make_scales_void) {
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

op rounded(op the_op, const std::string &arithmetic) {
    return the_op.set_attr(op::attr::coordinate_arithmetic, arithmetic);
}

// Which element output o was read from, where forwards differ.
TEST_P(interpolation_values, coordinate_arithmetic_decides) {
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
TEST_P(interpolation_values, rounded_coordinates) {
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
TEST_P(interpolation_values, ratios_decide) {
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
TEST_P(interpolation_values, given_ratios) {
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

// No formula reads src: its memory may be absent, or anything.
TEST_P(interpolation_values, src_is_not_read) {
    int accepted = 0;
    for (size_t which = 0; which < 2; ++which) {
        const op the_op = interpolation_op(interpolation_named("ragged_2d"), {},
                layouts()[which], data_type::f32);
        if (!accepts(the_op, the_engine(), kernel())) continue;
        ++accepted;
        const forced_kernel forced(kernel());
        op_run r(the_op, the_engine(), random_inputs(the_op, 8));
        auto tensors = r.input_tensors();
        tensors[0].set_data_handle(nullptr);
        stream s(the_engine());
        r.compiled().execute(s, tensors, r.output_tensors());
        s.wait();
        r.expect_right();
    }
    if (accepted == 0) GTEST_SKIP() << kernel() << " refuses it";
}

// Subnormal and large values survive; sums beyond the type's range overflow.
TEST_P(interpolation_values, ends_of_the_range) {
    if (refuses(line(3, 6, {"nearest", "half_pixel"}, data_type::f16)))
        GTEST_SKIP() << kernel() << " refuses it";
    for (const data_type type : {data_type::f16, data_type::bf16}) {
        const double largest = type == data_type::f16 ? 65504.0 : 0x1.fep127;
        const double smallest = type == data_type::f16 ? 0x1p-24 : 0x1p-133;
        const auto out = run(line(3, 6, {"nearest", "half_pixel"}, type),
                {largest, 0, largest, largest, smallest, 0});
        EXPECT_EQ(out[0], largest);
        EXPECT_EQ(out[1], infinity);
        EXPECT_EQ(out[2], smallest);
    }
}

// Rounded once, to nearest even: 1 + half an ulp stays 1, 1 + 3 halves goes
// up to 2 ulp.
TEST_P(interpolation_values, rounds_to_nearest_even) {
    if (refuses(line(3, 6, {"nearest", "half_pixel"}, data_type::f16)))
        GTEST_SKIP() << kernel() << " refuses it";
    for (const data_type type : {data_type::f16, data_type::bf16}) {
        const double ulp = type == data_type::f16 ? 0x1p-10 : 0x1p-7;
        const auto out = run(line(3, 6, {"nearest", "half_pixel"}, type),
                {1, ulp / 2, 1 + ulp, ulp / 2, 1, ulp / 2 + ulp / 64});
        EXPECT_EQ(out[0], 1);
        EXPECT_EQ(out[1], 1 + 2 * ulp);
        EXPECT_EQ(out[2], 1 + ulp);
    }
}

// Many images give what each gives alone: kernels that write large results past
// the caches, or share planes and rows among threads in other ways, change no
// bit. Rows of whole cache lines, rows of odd lengths, slices.
TEST_P(interpolation_values, images_do_not_depend_on_their_number) {
    const std::vector<interpolation_case> cases {
            {"even", 24, 8, {128, 64}, {192, 96}},
            {"odd", 24, 8, {157, 61}, {211, 85}},
            {"reduced", 24, 8, {211, 85}, {101, 43}},
            {"small_even", 24, 40, {7, 7}, {14, 14}},
            {"small_odd", 24, 41, {5, 6}, {13, 9}},
            {"volume", 24, 8, {5, 6, 16}, {9, 12, 32}},
            {"wide_odd", 24, 5, {9, 9}, {140, 139}}};
    bool any = false;
    for (interpolation_case many : cases)
        for (const layout &l : layouts())
            for (const data_type type : {data_type::f32, data_type::bf16}) {
                // As many bytes in all types.
                many.n = type == data_type::f32 ? 24 : 48;
                const bool plain = l.name == "ncx" || l.name == "nxc";
                if ((!plain && !l.name.starts_with("sliced"))
                        || (thinned() && type == data_type::bf16
                                && !many.name.ends_with("odd"))
                        || (thinned() && l.name != "nxc"))
                    continue;
                interpolation_case one = many;
                one.n = 1;
                const interpolation_choice linear {"linear", "half_pixel"};
                const op op_of_one = interpolation_op(one, linear, l, type);
                const op op_of_many = interpolation_op(many, linear, l, type);
                if (refuses(op_of_one) || refuses(op_of_many)) continue;
                SCOPED_TRACE(many.name + " " + l.name + " " + to_string(type));
                any = true;
                const forced_kernel forced(kernel());
                values_list inputs = random_inputs(op_of_many, 5);
                op_run all(op_of_many, the_engine(), inputs);
                all.execute();
                EXPECT_EQ(all.output_tensor(0).outside_damage(), "");
                const auto bytes = all.output_bytes(0);
                const auto size = static_cast<int64_t>(bytes.size()) / many.n;
                for (const int64_t image : {int64_t {0}, many.n - 1}) {
                    values_list part = inputs;
                    for (size_t i = 0; i < 2; ++i) {
                        const auto each = static_cast<int64_t>(inputs[i].size())
                                / many.n;
                        part[i].assign(inputs[i].begin() + image * each,
                                inputs[i].begin() + (image + 1) * each);
                    }
                    op_run alone(op_of_one, the_engine(), part);
                    alone.execute();
                    EXPECT_TRUE(std::ranges::equal(alone.output_bytes(0),
                            std::span(bytes).subspan(
                                    static_cast<size_t>(image * size),
                                    static_cast<size_t>(size))))
                            << "image " << image;
                }
            }
    if (!any) GTEST_SKIP() << kernel() << " refuses all";
}

INSTANTIATE_TEST_SUITE_P(kernels, interpolation_values,
        testing::ValuesIn(kernels()), [](const auto &each) {
            return identifier(std::string(to_string(std::get<0>(each.param)))
                    + "_" + std::get<1>(each.param));
        });

} // namespace
} // namespace gradnn::test
