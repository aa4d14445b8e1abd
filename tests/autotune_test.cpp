// The choice of a kernel by measuring, on a machine without a GPU: the stand-in of
// tests/fake_cuda has kernels take what times a test says.
#include <algorithm>
#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "fake_cuda/fake_cuda.hpp"
#include "kernel/plan_cache.hpp"
#include "support/captured_log.hpp"
#include "support/expect_error.hpp"
#include "support/op_builders.hpp"
#include "support/op_chains.hpp"
#include "support/plan_file.hpp"

namespace gradnn::test {
namespace {

/// A gradient of rows of 32 channels: by the rules gpu_tf32x3 takes it; gpu_sliding, gpu_col2im
/// and gpu_direct yield.
op rows(int64_t images = 64, int64_t points = 1024) {
    return convolution_op(op::kind::ConvolutionBackwardData,
            {"rows", images, 1, 32, 32, {points}, {3}, {1}, {1}, {1}, {1}},
            layouts()[1], data_type::f32);
}
constexpr const char *chosen_by_rules = "convolution.gpu_tf32x3";
/// Where a test says that its launches take less.
constexpr const char *rival = "convolution.gpu_sliding";

/// gpu_resample takes it by the rules, gpu_strided takes it too.
op enlarged_twice(int64_t images = 64) {
    return interpolation_op({"up", images, 32, {16, 16}, {32, 32}},
            {"linear", "half_pixel"}, layouts()[0], data_type::f32);
}

/// A gradient of groups of one channel: gpu_sliding takes it by the rules.
op depthwise(int64_t images = 8, int64_t pad = 1,
        op::kind kind = op::kind::ConvolutionBackwardData,
        data_type type = data_type::f32, int64_t dilation = 1) {
    return convolution_op(kind,
            {"depthwise", images, 64, 64, 64, {28, 28}, {3, 3}, {1, 1},
                    {dilation, dilation}, {pad, pad}, {pad, pad}},
            layouts()[1], type);
}

class autotune : public testing::Test {
protected:
    static void SetUpTestSuite() { setenv("GRADNN_NVRTC", FAKE_NVRTC, 1); }
    void SetUp() override {
        detail::forget_plans();
        fake_cuda::take_events();
        set_compiled_partition_cache_capacity(0);
        settings_.autotune = true;
        settings_.plan_cache = file_.path();
    }
    void TearDown() override {
        fake_cuda::set_kernel_times({});
        set_compiled_partition_cache_capacity(1024);
    }

    /// A launch of a kernel with that name, or in that namespace, takes so long; others
    /// take a millisecond.
    static void set_times(const std::map<std::string, double> &milliseconds) {
        fake_cuda::set_kernel_times([milliseconds](const std::string &kernel) {
            for (const auto &[name, time] : milliseconds)
                if (is_of(kernel, name)) return time;
            return 1.0;
        });
    }

    std::string taken(const op &the_op = rows()) const {
        return compile_with(the_op, settings_, engine(engine::kind::gpu, 0))
                .get_info()
                .steps.at(0)
                .kernel;
    }

    /// Of ops that are one partition.
    compiled_partition_info info_of(const std::vector<op> &ops) const {
        graph built(engine::kind::gpu);
        built.set_compile_settings(settings_);
        for (const op &each : ops)
            built.add_op(each);
        built.finalize();
        const partition whole = built.get_partitions().at(0);
        return whole
                .compile(whole.get_input_ports(), whole.get_output_ports(),
                        engine(engine::kind::gpu, 0))
                .get_info();
    }

    /// A new process, which measures nothing.
    void restart() {
        detail::forget_plans();
        settings_.autotune = false;
        fake_cuda::take_events();
    }

    /// Launches since restart or the last call, of kernels with that name or in that
    /// namespace.
    static size_t launches_of(const std::string &name) {
        size_t count = 0;
        for (const fake_cuda::event &event : fake_cuda::take_events())
            count += event.what == fake_cuda::event::kind::launch
                    && is_of(event.kernel, name);
        return count;
    }

    static bool is_of(const std::string &kernel, const std::string &name) {
        return kernel == name // compiled as it runs
                || kernel.find(std::to_string(name.size()) + name)
                != std::string::npos;
    }

    plan_file file_;
    compile_settings settings_;
};

TEST_F(autotune, takes_the_fastest_and_keeps_it) {
    set_times({{"gradnn_slide_data", 0.25}});
    EXPECT_EQ(taken(), rival);
    const auto lines = file_.lines();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with("NVIDIA H200 (stand-in); cuDNN "))
            << lines[0];
    EXPECT_TRUE(lines[0].ends_with(std::string("\t") + rival)) << lines[0];
    EXPECT_EQ(taken(rows(65)), rival);
    EXPECT_EQ(file_.lines().size(), 2U);
}

TEST_F(autotune, is_that_of_the_rules_without_measuring) {
    set_times({{"gradnn_slide_data", 0.25}});
    settings_.autotune = false;
    EXPECT_EQ(taken(), chosen_by_rules);
    EXPECT_EQ(launches_of("gradnn_slide_data"), 0U);
    EXPECT_TRUE(file_.lines().empty());
}

TEST_F(autotune, is_that_of_the_rules_where_nothing_is_faster) {
    set_times({{"gradnn_slide_data", 8}});
    EXPECT_EQ(taken(), chosen_by_rules);
    EXPECT_EQ(file_.lines().size(), 1U);
}

TEST_F(autotune, is_read_from_the_file) {
    set_times({{"gradnn_slide_data", 0.25}});
    EXPECT_EQ(taken(), rival);
    restart();
    EXPECT_EQ(taken(), rival);
    settings_.autotune = true;
    EXPECT_EQ(taken(), rival);
    EXPECT_EQ(launches_of("implicit_gemm"), 0U);
    // Without the file, and another problem.
    restart();
    EXPECT_EQ(taken(rows(66)), chosen_by_rules);
    settings_.plan_cache = "";
    detail::forget_plans();
    EXPECT_EQ(taken(), chosen_by_rules);
}

TEST_F(autotune, does_not_read_what_cannot_be) {
    set_times({{"gradnn_slide_data", 0.25}});
    taken();
    std::string line = file_.lines().at(0);
    line.erase(line.find('\t') + 1);
    for (const char *const kernel : {"convolution.gpu_f64", "no.such"}) {
        file_.write({line + kernel});
        restart();
        EXPECT_EQ(taken(), chosen_by_rules) << kernel;
        settings_.autotune = true;
        EXPECT_EQ(taken(), rival) << kernel;
        EXPECT_EQ(file_.lines(), std::vector {line + rival});
    }
    file_.write({"half a li"});
    restart();
    expect_error({"half a line", [&] { taken(); }, status::invalid_arguments,
            {"GRADNN_PLAN_CACHE", file_.path(), "line 2"}});
}

// Each list of names has a line of its own.
TEST_F(autotune, is_of_the_named_kernels) {
    set_times({{"gradnn_slide_data", 0.25}, {"implicit_gemm", 0.1}});
    settings_.kernels = "convolution.gpu_col2im,convolution.gpu_tf32x3";
    EXPECT_EQ(taken(), "convolution.gpu_tf32x3");
    settings_.kernels.clear();
    EXPECT_EQ(taken(), rival);
    EXPECT_EQ(file_.lines().size(), 2U);
    settings_.kernels = chosen_by_rules;
    fake_cuda::take_events();
    EXPECT_EQ(taken(), chosen_by_rules);
    EXPECT_EQ(launches_of("implicit_gemm"), 0U) << "nothing to compare it with";
    EXPECT_EQ(file_.lines().size(), 2U);
}

// gpu_col2im and gpu_direct yield, which takes everything.
TEST_F(autotune, times_rows_that_yield_but_no_last_resort_that_does) {
    settings_.autotune = false;
    EXPECT_EQ(taken(), chosen_by_rules);
    settings_.autotune = true;
    set_times({{"implicit_gemm", 0.1}, {"col2im", 0.1}, {"direct", 0.01}});
    EXPECT_EQ(taken(), "convolution.gpu_col2im");
}

// Five times, and once before that; what takes far longer twice in all.
TEST_F(autotune, runs_slow_rows_less_often) {
    set_times({{"gradnn_slide_data", 1.2}, {"col2im", 4}});
    fake_cuda::take_events();
    EXPECT_EQ(taken(), rival);
    std::map<std::string, size_t> launches;
    for (const fake_cuda::event &event : fake_cuda::take_events())
        for (const char *const name :
                {"gradnn_slide_data", "implicit_gemm", "add_products_kernel"})
            launches[name] += is_of(event.kernel, name);
    // Of each way to cut it, and as the row's.
    EXPECT_GT(launches["gradnn_slide_data"], 0U);
    EXPECT_EQ(launches["gradnn_slide_data"] % 6, 0U);
    // gpu_tf32x3 takes 2 ms, gpu_col2im, which multiplies by the same kernels, 5.
    EXPECT_EQ(launches["implicit_gemm"], 6U + 2U);
    EXPECT_EQ(launches["add_products_kernel"], 2U);
}

TEST_F(autotune, is_that_of_the_rules_where_memory_runs_out) {
    // gpu_direct would be faster.
    const op huge = depthwise(1 << 20);
    settings_.autotune = false;
    const std::string by_rules = taken(huge);
    settings_.autotune = true;
    set_times({{"direct", 0.25}});
    const captured_log log(2);
    EXPECT_EQ(taken(huge), by_rules);
    EXPECT_TRUE(file_.lines().empty());
    size_t told = 0;
    for (const fields &line : log.lines("dispatch"))
        told += line.at("note").starts_with("not measured: ")
                && line.at("note").find("bytes") != std::string::npos;
    EXPECT_EQ(told, 1U);
}

TEST_F(autotune, is_logged) {
    set_times({{"gradnn_slide_data", 0.25}});
    const auto notes = [&] {
        const captured_log log(2);
        taken();
        std::map<std::string, std::string> by_kernel;
        for (const fields &line : log.lines("dispatch"))
            by_kernel[split(line.at("steps"), ':').at(1)] = line.at("note");
        return by_kernel;
    };
    auto told = notes();
    EXPECT_EQ(told[rival], "250.0 us measured");
    EXPECT_EQ(told[chosen_by_rules], "2000.0 us measured");
    EXPECT_EQ(told["convolution.gpu_f64"].rfind("takes ", 0), 0U);
    EXPECT_EQ(told["convolution.gpu_direct"], "not measured: everything");
    told = notes();
    EXPECT_EQ(told.size(), 1U);
    EXPECT_EQ(told[rival], "kept in the plan cache as the fastest");
}

TEST_F(autotune, is_of_interpolations_too) {
    const char *const by_rules = "interpolation.gpu_resample";
    const char *const faster = "interpolation.gpu_strided";
    set_times({});
    EXPECT_EQ(taken(enlarged_twice()), by_rules);
    EXPECT_TRUE(
            file_.lines().at(0).starts_with("NVIDIA H200 (stand-in); gradnn "));
    EXPECT_TRUE(file_.lines().at(0).ends_with(by_rules));
    set_times({{"resample_any_kernel", 0.25}});
    EXPECT_EQ(taken(enlarged_twice()), by_rules) << "measured before";
    EXPECT_EQ(taken(enlarged_twice(65)), faster);
    EXPECT_EQ(file_.lines().size(), 2U);
    restart();
    EXPECT_EQ(taken(enlarged_twice(65)), faster);
    EXPECT_EQ(taken(enlarged_twice(66)), by_rules);
    EXPECT_EQ(launches_of("resample_any_kernel"), 0U);
}

TEST_F(autotune, is_of_depthwise_convolutions_too) {
    const char *const by_rules = "convolution.gpu_sliding";
    const char *const faster = "convolution.gpu_direct";
    set_times({});
    EXPECT_EQ(taken(depthwise()), by_rules);
    EXPECT_TRUE(file_.lines().at(0).ends_with(by_rules));
    set_times({{"direct", 0.25}});
    EXPECT_EQ(taken(depthwise()), by_rules) << "measured before";
    EXPECT_EQ(taken(depthwise(9)), faster);
    EXPECT_EQ(file_.lines().size(), 2U);
    // What may allow other kernels is measured by itself.
    settings_.convolution_workspace_limit = size_t {1} << 30;
    EXPECT_EQ(taken(depthwise()), faster);
    EXPECT_EQ(file_.lines().size(), 3U);
    restart();
    EXPECT_EQ(taken(depthwise()), faster);
    settings_.convolution_workspace_limit.reset();
    EXPECT_EQ(taken(depthwise()), by_rules);
    EXPECT_EQ(taken(depthwise(10)), by_rules);
    EXPECT_EQ(launches_of("direct"), 0U);
}

// The form of a partition that may be composed has a line too, which decides.
TEST_F(autotune, keeps_the_form_of_a_partition) {
    const op conv = depthwise();
    const auto nearest = interpolation_op({"up", 8, 64, {14, 14}, {28, 28}},
            {"nearest"}, layouts()[1], data_type::f32);
    const logical_tensor small(
            100, data_type::f32, sizes {8, 14, 14, 64}, layout_type::strided),
            diff_small(101, data_type::f32, sizes {8, 14, 14, 64},
                    layout_type::strided);
    const op down = with_ports(
            nearest, 1, {small, conv.get_outputs()[0]}, {diff_small});
    const auto is_composed = [&] {
        return info_of(
                {with_ports(conv, 0, conv.get_inputs(), conv.get_outputs()),
                        down})
                .composed;
    };
    set_times({});
    const bool measured = is_composed();
    auto lines = file_.lines();
    const auto line = std::ranges::find_if(lines,
            [](const auto &each) { return each.starts_with("form of "); });
    ASSERT_NE(line, lines.end());
    const std::string of_ops = "partition.ops", other = "partition.composed";
    EXPECT_TRUE(line->ends_with('\t' + (measured ? other : of_ops))) << *line;
    line->erase(line->find('\t') + 1);
    const std::string key = *line;
    for (const std::string &form : {of_ops, other}) {
        *line = key + form;
        file_.write(lines);
        restart();
        EXPECT_EQ(is_composed(), form == other);
        settings_.autotune = true;
        EXPECT_EQ(is_composed(), form == other);
    }
}

// So for ops in one kernel, which launches less than they do one by one.
TEST_F(autotune, is_of_ops_in_one_kernel_too) {
    const auto steps_behind = [&](op::kind behind) {
        return info_of(chain_of({{op::kind::InterpolateBackward}, {behind}},
                               layouts()[1], data_type::f32, {2, 64, {32, 32}}))
                .steps.size();
    };
    set_times({});
    EXPECT_EQ(steps_behind(op::kind::Add), 1U);
    auto lines = file_.lines();
    const auto line = std::ranges::find_if(lines,
            [](const auto &each) { return each.starts_with("form of "); });
    ASSERT_NE(line, lines.end());
    const std::string fused = "partition.fused";
    ASSERT_TRUE(line->ends_with('\t' + fused)) << *line;
    line->replace(line->size() - fused.size(), fused.size(), "partition.ops");
    file_.write(lines);
    restart();
    EXPECT_EQ(steps_behind(op::kind::Add), 2U);
    // Another op behind is another partition.
    EXPECT_EQ(steps_behind(op::kind::ReLUBackward), 1U);
}

// Every line is of one problem.
TEST_F(autotune, knows_convolutions_apart) {
    set_times({});
    const op all[] = {depthwise(), depthwise(8, 0),
            depthwise(8, 1, op::kind::ConvolutionBackwardWeights),
            depthwise(8, 1, op::kind::ConvolutionBackwardData, data_type::f64),
            depthwise(8, 2, op::kind::ConvolutionBackwardData, data_type::f32,
                    2)};
    for (const op &each : all)
        taken(each);
    EXPECT_EQ(file_.lines().size(), std::size(all));
    for (const std::string &line : file_.lines())
        EXPECT_NE(line.find("cuDNN "), std::string::npos) << line;
}

// Here cuDNN is absent: what was measured with it elsewhere counts for nothing.
TEST_F(autotune, does_without_a_kept_library) {
    set_times({});
    taken(depthwise());
    std::string line = file_.lines().at(0);
    line.erase(line.find('\t') + 1);
    file_.write({line + "convolution.cudnn"});
    restart();
    EXPECT_EQ(taken(depthwise()), "convolution.gpu_sliding");
}

TEST_F(autotune, is_asked_for_by_the_environment) {
    settings_ = {};
    set_times({{"gradnn_slide_data", 0.25}});
    setenv("GRADNN_PLAN_CACHE", file_.path().c_str(), 1);
    EXPECT_EQ(taken(), chosen_by_rules);
    setenv("GRADNN_AUTOTUNE", "1", 1);
    EXPECT_EQ(taken(), rival);
    unsetenv("GRADNN_AUTOTUNE");
    unsetenv("GRADNN_PLAN_CACHE");
    EXPECT_EQ(file_.lines().size(), 1U);
}

} // namespace
} // namespace gradnn::test
