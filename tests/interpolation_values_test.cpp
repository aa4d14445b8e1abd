// InterpolateBackward: values that a comparison with random data does not
// reach. Ties, Inf and NaN, inputs no one reads, the ends of the range.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <gtest/gtest.h>

#include "support/interpolation_kernel.hpp"

namespace gradnn::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class interpolation_values : public interpolation_kernel {
protected:
    /// The first and the last image of `many` give the same bits alone. False where
    /// the kernel refuses them.
    bool gives_images_alone(const interpolation_case &many, const layout &l,
            data_type type) const {
        interpolation_case one = many;
        one.n = 1;
        const interpolation_choice linear {"linear", "half_pixel"};
        const op op_of_one = interpolation_op(one, linear, l, type);
        const op op_of_many = interpolation_op(many, linear, l, type);
        if (refuses(op_of_one) || refuses(op_of_many)) return false;
        SCOPED_TRACE(many.name + " " + l.name + " " + to_string(type));
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
                const auto each
                        = static_cast<int64_t>(inputs[i].size()) / many.n;
                part[i].assign(inputs[i].begin() + image * each,
                        inputs[i].begin() + (image + 1) * each);
            }
            op_run alone(op_of_one, the_engine(), part);
            alone.execute();
            EXPECT_TRUE(std::ranges::equal(alone.output_bytes(0),
                    std::span(bytes).subspan(static_cast<size_t>(image * size),
                            static_cast<size_t>(size))))
                    << "image " << image;
        }
        return true;
    }
};

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
            {"odd_channels", 1, 17, {3, 10}, {6, 20}},
            {"pixels", 1, 3, {3, 8}, {6, 16}},
            {"line", 1, 3, {40}, {97}},
            {"one_axis", 2, 3, {7, 6}, {12, 6}},
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
            {"long", 1, 16, {4500}, {9000}},
            {"long_four_times", 1, 16, {3000}, {12000}},
            {"half", 1, 16, {6, 66}, {3, 33}},
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
    EXPECT_GT(accepted, 0);
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
            {"wide_odd", 24, 5, {9, 9}, {140, 139}},
            {"long_odd", 24, 3, {2}, {4213}},
            {"point_odd", 24, 1, {1}, {15001}}};
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
                any = gives_images_alone(many, l, type) || any;
            }
    if (!any) GTEST_SKIP() << kernel() << " refuses all";
}

// Few long rows of many vectors may be cut along their columns.
TEST_P(interpolation_values, one_long_row_is_as_each_of_two_and_of_five) {
    bool any = false;
    for (const data_type type : {data_type::f32, data_type::bf16})
        for (const auto &[rows, src, dst] : {std::tuple {2, 2300, 1700},
                     std::tuple {5, 2300, 1700}, std::tuple {5, 2300, 3500}}) {
            if (thinned() && (rows == 5) != (type == data_type::bf16)) continue;
            any = gives_images_alone(
                          {"row", rows, 256, {src}, {dst}}, layouts()[1], type)
                    || any;
        }
    if (!any) GTEST_SKIP() << kernel() << " refuses all";
}

// The gradient of a concatenation in NXC: channels of a wider tensor; and an
// expanded one, as of a sum. No user should pay for them with the slow kernel.
TEST(interpolation_on_the_cpu, of_diff_dst_with_gaps_is_by_vectors) {
    const engine cpu = shared_engine(engine::kind::cpu);
    for (const data_type type : float_types())
        for (const bool expanded : {false, true}) {
            SCOPED_TRACE(std::string(to_string(type))
                    + (expanded ? ", expanded" : ", a slice"));
            const int64_t pitch = expanded ? 0 : 29;
            const op dense
                    = interpolation_op({"dense", 2, 19, {8, 9}, {16, 18}},
                            {"linear", "half_pixel"}, layouts()[1], type);
            std::vector<logical_tensor> inputs = dense.get_inputs();
            inputs[1]
                    = logical_tensor(inputs[1].get_id(), type, {2, 16, 18, 19},
                            std::vector<int64_t> {288 * pitch, 18 * pitch,
                                    pitch, expanded ? 0 : 1});
            op gaps(0, op::kind::InterpolateBackward, inputs,
                    dense.get_outputs(), "gaps");
            gaps.set_attr<std::string>(op::attr::mode, "linear");
            gaps.set_attr<std::vector<int64_t>>(op::attr::sizes, {16, 18});
            gaps.set_attr<std::string>(op::attr::data_format, "NXC");
            op_run run(gaps, cpu, random_inputs(gaps, 5));
            EXPECT_EQ(run.compiled().get_info().steps.at(0).kernel,
                    "interpolation.separable");
            run.execute();
            run.expect_right();
        }
}

INSTANTIATE_TEST_SUITE_P(kernels, interpolation_values,
        testing::ValuesIn(interpolation_rows()), name_of);

} // namespace
} // namespace gradnn::test
