// Convolutions on the GPU engine beside the conformance suite: measured choices,
// the workspace limit, exact sums, what cuDNN is not given, shared copies.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include <unistd.h>

#include "files/tensor_data.hpp"
#include "support/gpu.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

class gpu_convolution : public gpu_fixture {
protected:
    static engine gpu() { return shared_engine(engine::kind::gpu); }
};

class gpu_convolution_measuring : public gpu_convolution {
protected:
    void SetUp() override {
        gpu_convolution::SetUp();
        if (IsSkipped()) return;
        if (cuda_interop::get_versions().cudnn == 0)
            GTEST_SKIP() << "needs cuDNN";
        file_ = std::filesystem::temp_directory_path()
                / ("gradnn_measured_" + std::to_string(::getpid()));
        std::filesystem::remove(file_);
        setenv("GRADNN_AUTOTUNE", "1", 1);
        setenv("GRADNN_PLAN_CACHE", file_.c_str(), 1);
    }
    void TearDown() override {
        unsetenv("GRADNN_AUTOTUNE");
        unsetenv("GRADNN_PLAN_CACHE");
        if (!file_.empty()) std::filesystem::remove(file_);
    }

    /// Lines of the file that keeps what was measured, without its first.
    size_t measured() const {
        std::ifstream file(file_);
        size_t lines = 0;
        for (std::string line; std::getline(file, line);)
            ++lines;
        return lines == 0 ? 0 : lines - 1;
    }

    std::filesystem::path file_;
};

// The choice may differ from run to run, what it computes does not.
TEST_F(gpu_convolution_measuring, takes_kernels_that_are_right) {
    const convolution_case c {
            "", 2, 1, 24, 32, {28, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
    size_t by_cudnn = 0;
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const data_type type : float_types()) {
            SCOPED_TRACE(std::string(to_string(type)) + " " + l.name);
            const op the_op
                    = convolution_op(op::kind::ConvBackward, c, l, type);
            op_run run(the_op, gpu(), random_inputs(the_op, 13));
            run.execute();
            run.expect_right();
            for (const auto &step : run.compiled().get_info().steps)
                by_cudnn += step.kernel == "convolution.cudnn";
        }
    EXPECT_GT(by_cudnn, 0U);
    // Copied to NXC, what NCX asks of cuDNN is measured already.
    EXPECT_GE(measured(), by_cudnn / 2);
}

// convolution.gpu_direct, which takes everything, alone may need more.
TEST_F(gpu_convolution, keeps_the_workspace_limit) {
    constexpr const char *variable = "GRADNN_CONVOLUTION_WORKSPACE_LIMIT";
    size_t bounded = 0;
    const auto try_limit = [&](const op &the_op, size_t limit) {
        setenv(variable, std::to_string(limit).c_str(), 1);
        const compiled_partition compiled = compile(the_op, gpu());
        unsetenv(variable);
        const auto info = compiled.get_info();
        if (info.steps[0].kernel == "convolution.gpu_direct") return;
        ++bounded;
        // A partition's workspace is whole 64 bytes.
        EXPECT_LE(compiled.get_workspace_size(), (limit + 63) / 64 * 64)
                << info.steps[0].kernel;
    };
    for (const char *name : {"sixteen_channels", "grouped_wide", "patches",
                 "narrow_groups", "depthwise_wide", "first_layer", "plain_3d",
                 "pointwise_3d"})
        for (const op::kind kind : {op::kind::ConvolutionBackwardData,
                     op::kind::ConvolutionBackwardWeights})
            for (const layout &l : {layouts()[0], layouts()[1]})
                for (const data_type type : float_types()) {
                    SCOPED_TRACE(std::string(name) + " " + to_string(kind) + " "
                            + l.name + " " + to_string(type));
                    const op the_op = convolution_op(
                            kind, convolution_named(name), l, type);
                    const size_t wanted
                            = compile(the_op, gpu()).get_workspace_size();
                    for (const size_t limit :
                            {size_t {0}, size_t {500}, wanted / 2, wanted})
                        try_limit(the_op, limit);
                }
    EXPECT_GT(bounded, 100U);
}

// Many images, rows or columns for a block: sums of whole numbers are exact in
// whatever order, and tell of one that is missing or taken twice.
TEST_F(gpu_convolution, depthwise_adds_whole_numbers_exactly) {
    const auto check = [&](const op &the_op) {
        values_list inputs = random_inputs(the_op, 14);
        random_source numbers(15);
        for (values_list::value_type &values : inputs)
            for (double &value : values)
                value = static_cast<double>(numbers.integer(-2, 2));
        op_run run(the_op, gpu(), inputs);
        run.execute();
        const auto expected = run.reference();
        for (size_t output = 0; output < expected.size(); ++output) {
            const auto out = run.output(output);
            for (size_t i = 0; i < out.size(); ++i)
                ASSERT_EQ(out[i],
                        detail::rounded_to(
                                data_type::f16, expected[output].values[i]))
                        << "output " << output << " element " << i;
        }
    };
    const forced_kernel forced(
            kernels_that_begin(engine::kind::gpu, "convolution",
                    "convolution.gpu_depthwise")
            + ",convolution.gpu_sliding");
    for (const int64_t size : {3, 5, 7})
        for (const auto &[images, channels, space] : {
                     std::tuple<int64_t, int64_t, sizes> {4500, 8, {3, 4}},
                     {300, 8, {13, 12}}, {12, 136, {13, 14}}, {1, 8, {600, 40}},
                     {2, 16, {9, 333}}, {1, 8, {2, 16400}}})
            for (const op::kind kind :
                    {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
                for (const layout &l : {layouts()[0], layouts()[1]}) {
                    const int64_t pad = size / 2;
                    const convolution_case c {"integers", images, channels,
                            channels, channels, space, {size, size}, {1, 1},
                            {1, 1}, {pad, pad}, {pad, pad}};
                    SCOPED_TRACE(std::to_string(size) + " of "
                            + std::to_string(images) + " images "
                            + to_string(kind) + " " + l.name);
                    wanted_outputs wanted;
                    wanted.diff_bias = false;
                    check(convolution_op(kind, c, l, data_type::f16, wanted));
                }
}

// Under relaxed modes too, except for gradients that fill the device.
TEST_F(gpu_convolution, weights_in_f32_of_16_bit_data_are_its_own) {
    const auto kernel_of = [&](int64_t channels, fpmath_mode mode) {
        const convolution_case c {"", 2, 1, channels, channels, {9, 8}, {3, 3},
                {1, 1}, {1, 1}, {1, 1}, {1, 1}};
        const op the_op = convolution_op(op::kind::ConvolutionBackwardWeights,
                c, layouts()[1], data_type::bf16, {true, true, true, true});
        return partition_of(the_op, engine::kind::gpu, mode)
                .compile(the_op.get_inputs(), the_op.get_outputs(), gpu())
                .get_info()
                .steps[0]
                .kernel;
    };
    constexpr int64_t many = 2048;
    for (const fpmath_mode mode : {fpmath_mode::strict, fpmath_mode::any})
        EXPECT_EQ(kernel_of(64, mode), "convolution.gpu_wide_weights");
    EXPECT_EQ(kernel_of(many, fpmath_mode::strict),
            "convolution.gpu_wide_weights");
    if (cuda_interop::get_versions().cudnn == 0) return;
    EXPECT_EQ(kernel_of(many, fpmath_mode::any), "convolution.cudnn");
}

// Of one slice and of several, in two and three dimensions.
TEST_F(gpu_convolution, wide_weights_writes_f32_and_16_bits) {
    const forced_kernel forced("convolution.gpu_wide_weights");
    size_t ran = 0;
    for (const char *name : {"sixteen_channels", "plain_3d", "patches"})
        for (const layout &l : {layouts()[0], layouts()[1]})
            for (const data_type type : {data_type::bf16, data_type::f16})
                for (const bool f32_gradients : {false, true}) {
                    SCOPED_TRACE(std::string(name) + " " + l.name + " "
                            + to_string(type)
                            + (f32_gradients ? " to f32" : ""));
                    const op the_op = convolution_op(
                            op::kind::ConvolutionBackwardWeights,
                            convolution_named(name), l, type,
                            {.f32_gradients = f32_gradients});
                    if (!accepts(the_op, gpu(), "convolution.gpu_wide_weights"))
                        continue;
                    op_run run(the_op, gpu(), random_inputs(the_op, 16));
                    run.execute();
                    run.expect_right();
                    ++ran;
                }
    EXPECT_EQ(ran, 24U);
}

// Where a limit has no room for all products: some images at a time, the last ones fewer.
TEST_F(gpu_convolution, col2im_computes_in_portions) {
    constexpr const char *variable = "GRADNN_CONVOLUTION_WORKSPACE_LIMIT";
    const forced_kernel forced("convolution.gpu_col2im");
    size_t ran = 0;
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const data_type type : float_types()) {
            SCOPED_TRACE(std::string(l.name) + " " + to_string(type));
            const convolution_case c {"", 17, 1, 5, 24, {19, 18}, {3, 3},
                    {2, 1}, {1, 2}, {1, 1}, {1, 1}};
            const op the_op = convolution_op(
                    op::kind::ConvolutionBackwardData, c, l, type);
            if (!accepts(the_op, gpu(), "convolution.gpu_col2im")) continue;
            const size_t wanted = compile(the_op, gpu()).get_workspace_size();
            setenv(variable, std::to_string(wanted * 3 / 4).c_str(), 1);
            EXPECT_NE(compile(the_op, gpu())
                              .get_info()
                              .steps[0]
                              .backend.find("portions"),
                    std::string::npos);
            op_run run(the_op, gpu(), random_inputs(the_op, 26));
            run.execute();
            unsetenv(variable);
            run.expect_right();
            ++ran;
        }
    EXPECT_EQ(ran, 8U);
}

// doc/notes/cudnn_faults.md.
TEST_F(gpu_convolution, where_cudnn_leaves_dst_is_not_its) {
    if (cuda_interop::get_versions().cudnn == 0) return;
    const forced_kernel forced("convolution.cudnn");
    // Others it may refuse for other reasons.
    const auto is_refused = [](int64_t src, int64_t groups, int64_t dilation,
                                    data_type type) {
        const convolution_case c {"", 1, groups, groups, 4 * groups, {src}, {4},
                {1}, {dilation}, {1}, {1}};
        try {
            compile(convolution_op(op::kind::ConvolutionBackwardData, c,
                            layouts()[0], type),
                    gpu());
        } catch (const error &refusal) {
            return std::string(refusal.what()).find("a dst of one position")
                    != std::string::npos;
        }
        return false;
    };
    for (const data_type type : {data_type::f16, data_type::bf16}) {
        EXPECT_TRUE(is_refused(11, 5, 4, type));
        EXPECT_TRUE(is_refused(41, 5, 4, type)) << "31 positions";
        EXPECT_FALSE(is_refused(42, 5, 4, type)) << "32 positions";
        EXPECT_FALSE(is_refused(11, 1, 4, type)) << "one group";
        // Without dilation too: taps that never meet src are left out, and with
        // them the dilation.
        EXPECT_TRUE(is_refused(2, 5, 1, type));
    }
    EXPECT_FALSE(is_refused(11, 5, 4, data_type::f32)) << "strict";
}

// Of one strip, whose first steps are below 0: ptxas 13.0 left these out (sliding/rows.cuh).
TEST_F(gpu_convolution, steps_below_0_are_taken) {
    const convolution_case c {"", 1, 2, 6, 2, {13}, {5}, {1}, {2}, {1}, {4}};
    for (const layout &l : layouts()) {
        SCOPED_TRACE(l.name);
        run_forced(convolution_op(op::kind::ConvTransposeBackwardData, c, l,
                           data_type::f32),
                gpu(), "convolution.gpu_sliding", 7);
    }
}

// The gradients of src and of weights copy diff_dst to another layout once, and
// give the bits that each of them gives alone.
TEST_F(gpu_convolution, gradients_of_an_op_share_a_copy) {
    const convolution_case c {
            "", 4, 1, 40, 32, {28, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const layout &ncx = layouts()[0];
    for (const op::kind kind :
            {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
        for (const data_type type : float_types()) {
            SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(kind));
            const op both = convolution_op(kind, c, ncx, type);
            const values_list inputs = random_inputs(both, 12);
            op_run run(both, gpu(), inputs);
            run.execute();
            run.expect_right();
            const auto steps = run.compiled().get_info().steps;
            ASSERT_EQ(steps.size(), 3U);
            const std::string shared = kind == op::kind::ConvBackward
                    ? "(dst by the step before)"
                    : "(src by the step before)";
            EXPECT_NE(steps[1].backend.find(shared), std::string::npos)
                    << steps[1].backend;
            op_run alone(
                    convolution_op(kind, c, ncx, type, {false, true, false}),
                    gpu(), inputs);
            alone.execute();
            EXPECT_EQ(alone.output_bytes(1), run.output_bytes(1));
        }
}

} // namespace
} // namespace gradnn::test
