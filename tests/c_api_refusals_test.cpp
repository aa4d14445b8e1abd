// The C API: what it refuses, and its use from several threads.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <gradnn/c_api.h>

#include "support/c_api.hpp"

namespace {

using namespace gradnn::test;

TEST_F(c_api, refusals_of_groups) {
    gradnn_op *group = nullptr;
    const gradnn_op *const members[] {interpolation(), interpolation()};
    // They are no chain: each has tensors of its own.
    const int32_t tensors[] {0, 1, -1, 4, 2, 3, -1, 5};
    const auto made_of = [&](size_t op_count, size_t tensor_count) {
        return gradnn_group_create(
                members, op_count, tensors, tensor_count, nullptr, &group);
    };
    expect_failure(made_of(2, 7), gradnn_invalid_arguments,
            {"7 tensors", "ops[1]", "InterpolateBackward", "4 ports"});
    expect_failure(made_of(1, 8), gradnn_invalid_arguments,
            {"1 ops and 8 tensors", "4 ports"});
    expect_failure(made_of(0, 0), gradnn_invalid_arguments, {"0 ops"});
    expect_failure(gradnn_group_create(nullptr, 1, tensors, 4, nullptr, &group),
            gradnn_invalid_arguments, {"ops is null"});
    EXPECT_EQ(group, nullptr);
    ASSERT_EQ(made_of(2, 8), gradnn_success);
    ops.push_back(group);
    const gradnn_tensor inputs[] {tensor_of({1, 2, 3, 3}),
            tensor_of({1, 2, 6, 6}), tensor_of({1, 2, 3, 3}),
            tensor_of({1, 2, 6, 6})};
    const gradnn_tensor outputs[] {unknown_f32, unknown_f32};
    gradnn_compiled *compiled = nullptr;
    expect_failure(
            gradnn_compile(group, engine, inputs, 4, outputs, 2, &compiled),
            gradnn_invalid_graph, {"2 partitions"});
    const gradnn_op *const nested[] {group};
    gradnn_op *outer = nullptr;
    expect_failure(gradnn_group_create(nested, 1, tensors, 8, nullptr, &outer),
            gradnn_invalid_arguments, {"ops[0] is a group"});
}

TEST_F(c_api, refusals) {
    gradnn_op *made = nullptr;
    expect_failure(gradnn_op_create("Nothing", nullptr, 0, nullptr, &made),
            gradnn_unimplemented, {"Nothing"});
    expect_failure(gradnn_op_create("MatMul", nullptr, 0, nullptr, &made),
            gradnn_unimplemented, {"MatMul"});
    expect_failure(gradnn_op_create(nullptr, nullptr, 0, nullptr, &made),
            gradnn_invalid_arguments, {"kind is null"});
    expect_failure(
            gradnn_op_create("ReLUBackward", nullptr, 0, nullptr, nullptr),
            gradnn_invalid_arguments, {"op is null"});
    expect_failure(gradnn_op_create("ReLUBackward", nullptr, 1, nullptr, &made),
            gradnn_invalid_arguments, {"attrs is null"});
    const auto with = [&](gradnn_attr attr) {
        return gradnn_op_create(
                "InterpolateBackward", &attr, 1, nullptr, &made);
    };
    expect_failure(with(text_attr("modus", "linear")), gradnn_invalid_graph_op,
            {"modus"});
    expect_failure(with({"mode", 17, 0, 1, "linear"}), gradnn_invalid_arguments,
            {"mode", "17"});
    expect_failure(with({"mode", gradnn_attr_string, 0, 1, nullptr}),
            gradnn_invalid_arguments, {"mode", "null"});
    EXPECT_EQ(made, nullptr);

    gradnn_op *the_op = interpolation();
    gradnn_compiled *compiled = nullptr;
    const auto compile_with = [&](const gradnn_tensor &diff_dst) {
        const gradnn_tensor inputs[] {tensor_of({1, 2, 3, 3}), diff_dst};
        return gradnn_compile(
                the_op, engine, inputs, 2, &unknown_f32, 1, &compiled);
    };
    expect_failure(compile_with(tensor_of({1, 2, 6, 5})), gradnn_invalid_shape,
            {"InterpolateBackward"});
    expect_failure(compile_with(tensor_of({1, 2, 6, 6}, gradnn_f64)),
            gradnn_invalid_data_type, {"InterpolateBackward"});
    expect_failure(compile_with(gradnn_tensor {}), gradnn_invalid_graph_op,
            {"diff_dst"});
    gradnn_tensor odd = tensor_of({1, 2, 6, 6});
    odd.ndims = 13;
    expect_failure(
            compile_with(odd), gradnn_invalid_arguments, {"input 1", "13"});
    odd = tensor_of({1, 2, 6, 6});
    odd.data_type = 99;
    expect_failure(
            compile_with(odd), gradnn_invalid_arguments, {"input 1", "99"});
    odd = tensor_of({1, 2, 6, 6});
    odd.layout = 3;
    expect_failure(
            compile_with(odd), gradnn_invalid_arguments, {"layout", "3"});
    EXPECT_EQ(compiled, nullptr);
    expect_failure(
            gradnn_compile(nullptr, engine, nullptr, 0, nullptr, 0, &compiled),
            gradnn_invalid_arguments, {"op is null"});
    expect_failure(
            gradnn_compile(the_op, nullptr, nullptr, 0, nullptr, 0, &compiled),
            gradnn_invalid_arguments, {"engine is null"});
    expect_failure(
            gradnn_compile(the_op, engine, &odd, 1000, nullptr, 0, &compiled),
            gradnn_invalid_arguments, {"1000"});
    gradnn_engine *other = nullptr;
    expect_failure(gradnn_engine_create(gradnn_cpu, 7, &other),
            gradnn_invalid_arguments, {"7"});
    expect_failure(gradnn_engine_create(5, 0, &other), gradnn_invalid_arguments,
            {"engine"});
    EXPECT_EQ(other, nullptr);
    gradnn_op_destroy(nullptr);
    gradnn_engine_destroy(nullptr);
    gradnn_compiled_release(nullptr);
}

// Failures of one thread are not those of another.
TEST_F(c_api, errors_are_the_threads) {
    gradnn_op *made = nullptr;
    expect_failure(gradnn_op_create("Nothing", nullptr, 0, nullptr, &made),
            gradnn_unimplemented, {"Nothing"});
    std::thread([] { EXPECT_STREQ(gradnn_last_error(), ""); }).join();
}

TEST_F(c_api, many_threads) {
    gradnn_op *the_op = interpolation();
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number)
        threads.emplace_back([&] {
            for (int64_t round = 0; round < 200; ++round) {
                const int64_t channels = 1 + round % 5;
                const gradnn_tensor inputs[] {tensor_of({1, channels, 3, 3}),
                        tensor_of({1, channels, 6, 6})};
                gradnn_compiled *compiled = nullptr;
                ASSERT_EQ(gradnn_compile(the_op, engine, inputs, 2,
                                  &unknown_f32, 1, &compiled),
                        gradnn_success);
                gradnn_tensor output {};
                EXPECT_EQ(gradnn_compiled_output(compiled, 0, &output),
                        gradnn_success);
                EXPECT_EQ(output.dims[1], channels);
                gradnn_compiled_release(compiled);
            }
        });
    for (std::thread &each : threads)
        each.join();
}

} // namespace
