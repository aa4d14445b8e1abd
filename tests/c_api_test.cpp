// The C API: that it computes what the C++ API does, and that compiling again is a
// lookup.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include <gradnn/c_api.h>
#include <gradnn/gradnn.hpp>

#include "support/c_api.hpp"

namespace {

using namespace gradnn::test;

TEST_F(c_api, versions) {
    int major = -1, minor = -1, patch = -1;
    gradnn_version(&major, &minor, &patch);
    EXPECT_EQ(major, gradnn::version_major);
    EXPECT_EQ(minor, gradnn::version_minor);
    EXPECT_EQ(patch, gradnn::version_patch);
    gradnn_version(nullptr, nullptr, nullptr);
    EXPECT_EQ(gradnn_c_api_version(), GRADNN_C_API_VERSION);
    EXPECT_STREQ(gradnn_status_name(gradnn_invalid_shape), "invalid_shape");
    EXPECT_GE(std::strlen(gradnn_onednn_version()), 4U);
    EXPECT_EQ(gradnn_engine_count(gradnn_cpu), 1U);
}

TEST_F(c_api, interpolates) {
    gradnn_compiled *compiled = compile(interpolation(),
            {tensor_of({1, 2, 3, 3}), tensor_of({1, 2, 6, 6})}, {unknown_f32});
    gradnn_tensor output {};
    ASSERT_EQ(gradnn_compiled_output(compiled, 0, &output), gradnn_success);
    EXPECT_EQ(output.data_type, gradnn_f32);
    EXPECT_EQ(output.layout, gradnn_layout_strided);
    ASSERT_EQ(output.ndims, 4);
    EXPECT_EQ(std::vector(output.dims, output.dims + 4),
            (std::vector<int64_t> {1, 2, 3, 3}));
    EXPECT_EQ(std::vector(output.strides, output.strides + 4),
            (std::vector<int64_t> {18, 9, 3, 1}));

    // Each element of src has weight 4 in all: 2 outputs an axis.
    const std::vector<float> diff_dst(72, 1.0F);
    std::vector<float> diff_src(18, -1.0F);
    std::vector<char> memory(gradnn_compiled_workspace_size(compiled) + 64);
    void *workspace = memory.data()
            + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    const void *inputs[] {nullptr, diff_dst.data()};
    void *outputs[] {diff_src.data()};
    ASSERT_EQ(
            gradnn_execute(compiled, nullptr, inputs, 2, outputs, 1, workspace),
            gradnn_success)
            << gradnn_last_error();
    double sum = 0;
    for (const float value : diff_src)
        sum += static_cast<double>(value);
    EXPECT_NEAR(sum, 72, 1e-4);
    EXPECT_NEAR(diff_src[4], 4, 1e-6);

    EXPECT_EQ(gradnn_compiled_deterministic(compiled), 1);
    ASSERT_EQ(gradnn_compiled_step_count(compiled), 1U);
    gradnn_step step {};
    ASSERT_EQ(gradnn_compiled_step(compiled, 0, &step), gradnn_success);
    EXPECT_STREQ(step.output, "diff_src");
    EXPECT_EQ(std::string(step.kernel).rfind("interpolation.", 0), 0U);
    expect_failure(gradnn_compiled_step(compiled, 1, &step),
            gradnn_invalid_arguments, {"step 1", "1"});
    expect_failure(gradnn_compiled_output(compiled, 1, &output),
            gradnn_invalid_arguments, {"no output 1"});
    gradnn_compiled_release(compiled);
}

// Interpolate, ConvBackward and InterpolateBackward of ones: tensors are diff_dst 0, x
// 1, weights 2, the large ones 3 and 4, diff_x 5, diff_weights 6.
TEST_F(c_api, groups) {
    static const std::vector<int64_t> large {6, 6};
    const std::vector<gradnn_attr> nearest {text_attr("mode", "nearest"),
            text_attr("data_format", "NCX"), list_attr("sizes", large)};
    const gradnn_op *const members[] {make("Interpolate", nearest),
            convolution(), make("InterpolateBackward", nearest)};
    const int32_t tensors[] {1, -1, 3, 0, 3, 2, 4, 6, -1, 1, 4, -1, 5};
    gradnn_settings settings;
    gradnn_settings_init(&settings);
    for (const char *form : {"partition.ops", "partition.composed"}) {
        settings.kernels = form;
        gradnn_op *group = nullptr;
        ASSERT_EQ(
                gradnn_group_create(members, 3, tensors, 13, &settings, &group),
                gradnn_success)
                << gradnn_last_error();
        ops.push_back(group);
        gradnn_compiled *compiled = compile(group,
                {tensor_of({1, 1, 6, 6}), tensor_of({1, 2, 3, 3}),
                        tensor_of({1, 2, 3, 3})},
                {unknown_f32, unknown_f32});
        EXPECT_EQ(gradnn_compiled_step_count(compiled), 4U);
        const std::vector<float> diff_dst(36, 1.0F), x(18, 1.0F),
                weights(18, 1.0F);
        std::vector<float> diff_x(18, -1.0F), diff_weights(18, -1.0F);
        std::vector<char> memory(gradnn_compiled_workspace_size(compiled) + 64);
        void *workspace = memory.data()
                + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
        const void *inputs[] {diff_dst.data(), x.data(), weights.data()};
        void *outputs[] {diff_x.data(), diff_weights.data()};
        ASSERT_EQ(gradnn_execute(
                          compiled, nullptr, inputs, 3, outputs, 2, workspace),
                gradnn_success)
                << gradnn_last_error();
        // Windows at the border have two rows or columns fewer.
        EXPECT_EQ(diff_x[4], 36);
        EXPECT_EQ(diff_x[0], 25);
        EXPECT_EQ(diff_weights[4], 36);
        EXPECT_EQ(diff_weights[0], 25);
        gradnn_compiled_release(compiled);
    }
}

// A port in the middle that is absent keeps the places of the others.
// Nearest, output 23 of 14 -> 46 in float32: read from 6 by 14 / 46, from 11 by
// 0.5.
TEST_F(c_api, lists_of_f64) {
    const std::vector<int64_t> sizes {46};
    for (const auto &[ratio, index] :
            {std::pair {14.0 / 46, 6U}, std::pair {0.5, 11U}}) {
        gradnn_compiled *compiled = compile(
                make("InterpolateBackward",
                        {text_attr("mode", "nearest"),
                                text_attr("data_format", "NCX"),
                                text_attr("coordinate_transformation_mode",
                                        "asymmetric"),
                                text_attr("coordinate_arithmetic", "float32"),
                                text_attr("scale_rule", "ratios"),
                                {"ratios", gradnn_attr_f64_list, 0, 1, &ratio},
                                list_attr("sizes", sizes)}),
                {tensor_of({1, 1, 14}), tensor_of({1, 1, 46})}, {unknown_f32});
        std::vector<float> diff_dst(46, 0.0F);
        diff_dst[23] = 1;
        std::vector<float> diff_src(14, -1.0F);
        std::vector<char> memory(gradnn_compiled_workspace_size(compiled) + 64);
        void *workspace = memory.data()
                + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
        const void *inputs[] {nullptr, diff_dst.data()};
        void *outputs[] {diff_src.data()};
        ASSERT_EQ(gradnn_execute(
                          compiled, nullptr, inputs, 2, outputs, 1, workspace),
                gradnn_success)
                << gradnn_last_error();
        std::vector<float> expected(14, 0.0F);
        expected[index] = 1;
        EXPECT_EQ(diff_src, expected);
        gradnn_compiled_release(compiled);
    }
}

TEST_F(c_api, absent_outputs) {
    const std::vector<gradnn_tensor> inputs {tensor_of({1, 4, 5, 5}),
            tensor_of({1, 2, 5, 5}), tensor_of({4, 2, 3, 3})};
    gradnn_tensor weights = unknown_f32;
    gradnn_compiled *all = compile(
            convolution(), inputs, {unknown_f32, weights, unknown_f32});
    gradnn_compiled *some
            = compile(convolution(), inputs, {gradnn_tensor {}, weights});
    EXPECT_EQ(gradnn_compiled_step_count(all), 3U);
    ASSERT_EQ(gradnn_compiled_step_count(some), 1U);
    gradnn_step step {};
    ASSERT_EQ(gradnn_compiled_step(some, 0, &step), gradnn_success);
    EXPECT_STREQ(step.output, "diff_weights");
    gradnn_tensor output {};
    expect_failure(gradnn_compiled_output(some, 0, &output),
            gradnn_invalid_arguments, {"no output 0"});
    ASSERT_EQ(gradnn_compiled_output(some, 1, &output), gradnn_success);
    EXPECT_EQ(output.dims[0], 4);

    std::vector<float> data(200, 0.5F);
    std::vector<std::vector<float>> results(4, std::vector<float>(200, -1));
    const auto run = [&](gradnn_compiled *compiled,
                             const std::vector<const void *> &in,
                             const std::vector<void *> &out) {
        std::vector<char> memory(gradnn_compiled_workspace_size(compiled) + 64);
        void *workspace = memory.data()
                + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
        return gradnn_execute(compiled, nullptr, in.data(), in.size(),
                out.data(), out.size(), workspace);
    };
    ASSERT_EQ(
            run(all, {data.data(), data.data(), data.data()},
                    {results[0].data(), results[1].data(), results[2].data()}),
            gradnn_success)
            << gradnn_last_error();
    // What is not asked for is not read either: weights for diff_weights.
    ASSERT_EQ(run(some, {data.data(), data.data(), nullptr},
                      {nullptr, results[3].data()}),
            gradnn_success)
            << gradnn_last_error();
    EXPECT_EQ(results[1], results[3]);
    EXPECT_FLOAT_EQ(results[1][4], 25 * 0.25F);
    EXPECT_FLOAT_EQ(results[2][0], 12.5F);

    expect_failure(run(some, {data.data(), data.data(), nullptr}, {}),
            gradnn_invalid_arguments, {"0 outputs", "2"});
    expect_failure(
            run(some, {data.data(), data.data()}, {nullptr, results[3].data()}),
            gradnn_invalid_arguments, {"2 inputs", "3"});
    expect_failure(run(some, {data.data(), nullptr, nullptr},
                           {nullptr, results[3].data()}),
            gradnn_invalid_arguments, {"ConvBackward", "(src)", "null"});
    expect_failure(run(some, {data.data(), data.data(), nullptr},
                           {nullptr, data.data()}),
            gradnn_invalid_arguments, {"diff_weights", "overlaps"});
    expect_failure(
            gradnn_execute(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr),
            gradnn_invalid_arguments, {"compiled is null"});
    gradnn_compiled_release(all);
    gradnn_compiled_release(some);
}

TEST_F(c_api, compiling_again_is_a_lookup) {
    gradnn_op *the_op = interpolation();
    const std::vector<gradnn_tensor> inputs {
            tensor_of({1, 2, 3, 3}), tensor_of({1, 2, 6, 6})};
    gradnn_compiled *first = compile(the_op, inputs, {unknown_f32});
    gradnn_compiled *second = compile(the_op, inputs, {unknown_f32});
    EXPECT_EQ(first, second);
    // Another shape, type, layout or op is another.
    gradnn_compiled *larger = compile(the_op,
            {tensor_of({2, 2, 3, 3}), tensor_of({2, 2, 6, 6})}, {unknown_f32});
    EXPECT_NE(first, larger);
    gradnn_tensor padded = tensor_of({1, 2, 6, 6});
    padded.strides[1] = 40;
    gradnn_compiled *strided
            = compile(the_op, {inputs[0], padded}, {unknown_f32});
    EXPECT_NE(first, strided);
    gradnn_tensor half = unknown_f32;
    half.data_type = gradnn_f16;
    gradnn_compiled *narrow = compile(the_op,
            {tensor_of({1, 2, 3, 3}, gradnn_f16),
                    tensor_of({1, 2, 6, 6}, gradnn_f16)},
            {half});
    EXPECT_NE(first, narrow);
    for (gradnn_compiled *each : {first, second, larger, strided, narrow})
        gradnn_compiled_release(each);
}

// What an op keeps is bounded, and what was handed out lives on.
TEST_F(c_api, what_is_kept_is_bounded) {
    const int before = gradnn::get_compiled_partition_cache_capacity();
    gradnn::set_compiled_partition_cache_capacity(2);
    gradnn_op *the_op = interpolation();
    std::vector<gradnn_compiled *> made;
    for (int64_t channels = 1; channels <= 4; ++channels)
        made.push_back(compile(the_op,
                {tensor_of({1, channels, 3, 3}),
                        tensor_of({1, channels, 6, 6})},
                {unknown_f32}));
    gradnn_compiled *again = compile(the_op,
            {tensor_of({1, 1, 3, 3}), tensor_of({1, 1, 6, 6})}, {unknown_f32});
    EXPECT_NE(again, made[0]); // was the oldest of two
    gradnn_tensor output {};
    EXPECT_EQ(gradnn_compiled_output(made[0], 0, &output), gradnn_success);
    EXPECT_EQ(output.dims[1], 1);
    for (gradnn_compiled *each : made)
        gradnn_compiled_release(each);
    gradnn_compiled_release(again);
    gradnn::set_compiled_partition_cache_capacity(before);
}

TEST_F(c_api, settings) {
    gradnn_settings settings;
    gradnn_settings_init(&settings);
    settings.kernels = "interpolation.strided";
    settings.threads = 1;
    gradnn_compiled *compiled = compile(interpolation(&settings),
            {tensor_of({1, 2, 3, 3}), tensor_of({1, 2, 6, 6})}, {unknown_f32});
    gradnn_step step {};
    ASSERT_EQ(gradnn_compiled_step(compiled, 0, &step), gradnn_success);
    EXPECT_STREQ(step.kernel, "interpolation.strided");
    gradnn_compiled_release(compiled);

    // Of an older header, without the last members.
    settings.struct_size = offsetof(gradnn_settings, kernels);
    compiled = compile(interpolation(&settings),
            {tensor_of({1, 2, 3, 3}), tensor_of({1, 2, 6, 6})}, {unknown_f32});
    ASSERT_EQ(gradnn_compiled_step(compiled, 0, &step), gradnn_success);
    EXPECT_STRNE(step.kernel, "interpolation.strided");
    gradnn_compiled_release(compiled);

    gradnn_op *made = nullptr;
    const auto create = [&] {
        return gradnn_op_create("ReLUBackward", nullptr, 0, &settings, &made);
    };
    settings.struct_size = 0;
    expect_failure(create(), gradnn_invalid_arguments, {"struct_size"});
    gradnn_settings_init(&settings);
    settings.threads = -1;
    expect_failure(create(), gradnn_invalid_arguments, {"threads", "-1"});
    gradnn_settings_init(&settings);
    settings.fpmath = 9;
    expect_failure(create(), gradnn_invalid_arguments, {"fpmath", "9"});
    EXPECT_EQ(made, nullptr);
}

} // namespace
