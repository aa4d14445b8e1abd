// What graph::add_op refuses in an op's attributes: status, and a message that
// names the op and the attribute, what was given and what is allowed.
#include <limits>

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using namespace samples;

constexpr int64_t huge = std::numeric_limits<int64_t>::max();
const float nan_scale = std::numeric_limits<float>::quiet_NaN();
const float inf_scale = std::numeric_limits<float>::infinity();

std::function<void()> with_ratios(const std::vector<double> &ratios) {
    return [=] {
        add(interpolation()
                        .set_attr<std::string>(attr::scale_rule, "ratios")
                        .set_attr(attr::ratios, ratios));
    };
}

std::function<void()> rounded(const std::string &arithmetic,
        const std::string &mode, const std::string &coordinates) {
    return [=] {
        add(interpolation()
                        .set_attr(attr::mode, mode)
                        .set_attr(attr::coordinate_transformation_mode,
                                coordinates)
                        .set_attr(attr::coordinate_arithmetic, arithmetic));
    };
}

std::vector<error_row> rows() {
    using s = status;
    return {
            {"mode_missing",
                    [] {
                        op the_op(3, op::kind::InterpolateBackward,
                                interpolation().get_inputs(),
                                interpolation().get_outputs(), "up");
                        the_op.set_attr(attr::sizes, sizes {8, 8});
                        add(the_op);
                    },
                    s::invalid_graph_op,
                    {"InterpolateBackward", "'up'", "mode", "missing"}},
            {"mode_unknown",
                    interpolation_with<std::string>(attr::mode, "lanczos"),
                    s::invalid_graph_op,
                    {"mode", "\"lanczos\"", "nearest, linear, bilinear"}},
            {"antialias_of_nearest",
                    [] {
                        op up = interpolation();
                        up.set_attr(attr::mode, "nearest");
                        add(up.set_attr(attr::antialias, true));
                    },
                    s::invalid_graph_op,
                    {"antialias", "nearest", "linear and cubic"}},
            {"antialias_of_another_type",
                    interpolation_with<int64_t>(attr::antialias, 1),
                    s::invalid_graph_op, {"antialias", "s64", "bool"}},
            {"cubic_coeff_a_too_large",
                    interpolation_with<float>(attr::cubic_coeff_a, 2.5F),
                    s::invalid_graph_op, {"cubic_coeff_a", "2.5", "-2 to 2"}},
            {"cubic_coeff_a_no_number",
                    interpolation_with<float>(attr::cubic_coeff_a,
                            std::numeric_limits<float>::quiet_NaN()),
                    s::invalid_graph_op, {"cubic_coeff_a", "nan", "-2 to 2"}},
            {"coordinate_mode_unknown",
                    interpolation_with<std::string>(
                            attr::coordinate_transformation_mode,
                            "tf_crop_and_resize"),
                    s::invalid_graph_op,
                    {"coordinate_transformation_mode", "tf_crop_and_resize",
                            "half_pixel, align_corners"}},
            {"data_format_unknown",
                    interpolation_with<std::string>(attr::data_format, "NHWC"),
                    s::invalid_graph_op, {"data_format", "NHWC", "NCX, NXC"}},
            {"scale_rule_unknown",
                    interpolation_with<std::string>(attr::scale_rule, "mine"),
                    s::invalid_graph_op, {"scale_rule", "mine", "given"}},
            {"auto_pad_unknown",
                    convolution_with<std::string>(attr::auto_pad, "same"),
                    s::invalid_graph_op,
                    {"ConvBackward", "'conv'", "auto_pad", "\"same\"",
                            "same_upper"}},
            {"weights_format_of_the_other_family",
                    convolution_with<std::string>(attr::weights_format, "IOX"),
                    s::invalid_graph_op, {"weights_format", "IOX", "OIX, XIO"}},
            {"attribute_of_another_op",
                    interpolation_with(attr::groups, int64_t {2}),
                    s::invalid_graph_op, {"groups", "InterpolateBackward"}},
            {"attribute_of_wrong_type",
                    convolution_with(attr::strides, int64_t {1}),
                    s::invalid_graph_op, {"strides", "s64", "s64[]"}},
            {"string_for_a_list",
                    convolution_with<std::string>(attr::pads_end, "0,0"),
                    s::invalid_graph_op, {"pads_end", "string", "s64[]"}},
            {"list_for_groups", convolution_with(attr::groups, sizes {2}),
                    s::invalid_graph_op, {"groups", "s64[]"}},
            {"integers_for_scales",
                    [] {
                        add(interpolation().set_attr(
                                attr::scales, sizes {2, 2}));
                    },
                    s::invalid_graph_op, {"scales", "s64[]", "f32[]"}},
            {"strides_missing",
                    [] {
                        const op full = convolution();
                        op bare(4, full.get_kind(), full.get_inputs(),
                                full.get_outputs());
                        bare.set_attr(attr::dilations, sizes {1, 1});
                        add(bare);
                    },
                    s::invalid_graph_op,
                    {"ConvBackward", "strides", "missing"}},
            {"strides_of_zero", convolution_with(attr::strides, sizes {1, 0}),
                    s::invalid_graph_op, {"strides", "[1, 0]", "allowed"}},
            {"strides_negative", convolution_with(attr::strides, sizes {-1, 1}),
                    s::invalid_graph_op, {"strides", "[-1, 1]", "allowed"}},
            {"dilations_of_zero",
                    convolution_with(attr::dilations, sizes {0, 1}),
                    s::invalid_graph_op, {"dilations", "[0, 1]", "allowed"}},
            {"groups_of_zero", convolution_with(attr::groups, int64_t {0}),
                    s::invalid_graph_op, {"groups", "0", "allowed"}},
            {"groups_negative", convolution_with(attr::groups, int64_t {-2}),
                    s::invalid_graph_op, {"groups", "-2", "allowed"}},
            {"groups_do_not_divide",
                    convolution_with(attr::groups, int64_t {4}),
                    s::invalid_shape, {"groups", "4"}},
            {"too_many_strides",
                    convolution_with(attr::strides, sizes {1, 1, 1}),
                    s::invalid_graph_op, {"strides", "3", "2"}},
            {"too_few_dilations", convolution_with(attr::dilations, sizes {1}),
                    s::invalid_graph_op, {"dilations", "1", "2"}},
            {"pads_beyond_reason",
                    convolution_with(attr::pads_begin, sizes {huge, 0}),
                    s::invalid_graph_op, {"pads_begin", "allowed"}},
            {"output_padding_negative",
                    [] {
                        op the_op = convolution_op(
                                op::kind::ConvTransposeBackward,
                                convolution_named("strided_2d"), layouts()[0],
                                data_type::f32);
                        add(the_op.set_attr(
                                attr::output_padding, sizes {-1, 0}));
                    },
                    s::invalid_graph_op, {"output_padding", "-1"}},
            {"output_padding_too_long_and_not_zero",
                    [] {
                        op the_op = convolution_op(
                                op::kind::ConvTransposeBackward,
                                convolution_named("strided_2d"), layouts()[0],
                                data_type::f32);
                        add(the_op.set_attr(
                                attr::output_padding, sizes {0, 0, 1}));
                    },
                    s::invalid_graph_op, {"output_padding", "3", "2"}},
            {"sizes_and_scales_missing", scaled({}), s::invalid_graph_op,
                    {"'up'", "sizes", "scales"}},
            {"sizes_disagree", interpolation_with(attr::sizes, sizes {8, 9}),
                    s::invalid_shape, {"sizes", "[8, 9]", "[1, 2, 8, 8]"}},
            {"sizes_of_wrong_length",
                    interpolation_with(attr::sizes, sizes {8}),
                    s::invalid_graph_op, {"sizes", "1", "2"}},
            {"sizes_negative", interpolation_with(attr::sizes, sizes {-8, 8}),
                    s::invalid_graph_op, {"sizes", "[-8, 8]"}},
            {"scales_disagree", scaled({2.0F, 3.0F}), s::invalid_shape,
                    {"scales", "8", "12"}},
            {"scale_of_zero", scaled({0.0F, 2.0F}), s::invalid_graph_op,
                    {"scales", "[0, 2]", "positive"}},
            {"scale_negative", scaled({2.0F, -2.0F}), s::invalid_graph_op,
                    {"scales", "-2", "positive"}},
            {"scale_nan", scaled({2.0F, nan_scale}), s::invalid_graph_op,
                    {"scales", "nan", "positive"}},
            {"scale_infinite", scaled({inf_scale, 2.0F}), s::invalid_graph_op,
                    {"scales", "inf", "positive"}},
            {"scales_of_wrong_length", scaled({2.0F, 2.0F, 2.0F}),
                    s::invalid_graph_op, {"scales", "3", "2"}},
            {"rule_given_without_scales", scaled({}, "given"),
                    s::invalid_graph_op, {"scales"}},
            {"rule_ratios_without_ratios",
                    interpolation_with<std::string>(attr::scale_rule, "ratios"),
                    s::invalid_graph_op, {"scale_rule", "ratios", "missing"}},
            {"ratios_without_the_rule",
                    interpolation_with(
                            attr::ratios, std::vector<double> {0.5, 0.5}),
                    s::invalid_graph_op,
                    {"ratios", "scale_rule is shape_ratio", "allowed"}},
            {"ratios_of_f32",
                    interpolation_with(
                            attr::ratios, std::vector<float> {0.5F, 0.5F}),
                    s::invalid_graph_op, {"ratios", "f32[]", "f64[]"}},
            {"ratios_of_wrong_length", with_ratios({0.5}), s::invalid_graph_op,
                    {"ratios", "1", "2"}},
            {"ratio_of_zero", with_ratios({0.5, 0.0}), s::invalid_graph_op,
                    {"ratios", "[0.5, 0]", "2^-60 to 2^60"}},
            {"ratio_negative", with_ratios({-0.5, 0.5}), s::invalid_graph_op,
                    {"ratios", "[-0.5, 0.5]", "2^-60 to 2^60"}},
            {"ratio_nan", with_ratios({0.5, nan_scale}), s::invalid_graph_op,
                    {"ratios", "nan", "2^-60 to 2^60"}},
            {"ratio_too_large", with_ratios({0.5, 1.2e18}), s::invalid_graph_op,
                    {"ratios", "1.2e+18", "2^60"}},
            {"ratio_too_small", with_ratios({0.5, 8e-19}), s::invalid_graph_op,
                    {"ratios", "8e-19", "2^-60"}},
            {"arithmetic_unknown", rounded("float16", "nearest", "half_pixel"),
                    s::invalid_graph_op,
                    {"coordinate_arithmetic", "\"float16\"",
                            "exact, float32, float32_fma, float64"}},
            {"arithmetic_of_linear", rounded("float32", "linear", "half_pixel"),
                    s::invalid_graph_op,
                    {"coordinate_arithmetic is float32", "mode is linear",
                            "nearest"}},
            {"arithmetic_of_align_corners",
                    rounded("float32_fma", "nearest", "align_corners"),
                    s::invalid_graph_op,
                    {"coordinate_arithmetic is float32_fma",
                            "coordinate_transformation_mode is align_corners",
                            "half_pixel and asymmetric"}},
            {"arithmetic_of_given_scales",
                    [] {
                        op the_op = interpolation();
                        the_op.set_attr<std::string>(attr::mode, "nearest");
                        the_op.set_attr<std::string>(attr::scale_rule, "given");
                        the_op.set_attr(
                                attr::scales, std::vector<float> {2, 2});
                        add(the_op.set_attr<std::string>(
                                attr::coordinate_arithmetic, "float64"));
                    },
                    s::invalid_graph_op,
                    {"coordinate_arithmetic is float64", "scale_rule is given",
                            "shape_ratio and ratios"}},
    };
}

class attribute_errors : public testing::TestWithParam<error_row> {};

TEST_P(attribute_errors, are_named) {
    expect_error(GetParam());
}

INSTANTIATE_TEST_SUITE_P(table, attribute_errors, testing::ValuesIn(rows()),
        [](const auto &each) { return each.param.name; });

// What the rows above change is right before the change.
TEST(attribute_errors_basis, is_right) {
    EXPECT_NO_THROW(add(interpolation()));
    EXPECT_NO_THROW(add(convolution()));
    EXPECT_NO_THROW(scaled({2.0F, 2.0F})());
    EXPECT_NO_THROW(with_ratios({0.5, 0.7})());
    EXPECT_NO_THROW(rounded("float32", "nearest", "half_pixel")());
    EXPECT_NO_THROW(rounded("exact", "linear", "align_corners")());
    EXPECT_NO_THROW(convolution_of({1, 6, 7, 7}, {1, 4, 9, 9}, {6, 4, 3, 3})());
}

} // namespace
} // namespace gradnn::test
