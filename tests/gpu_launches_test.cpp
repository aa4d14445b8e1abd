// Every launch of every plan of the GPU engine is one that the device would take: the
// stand-in of tests/fake_cuda refuses too many threads, registers or bytes of shared memory,
// and grids that are too large. ctest runs this for GPUs of all generations.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "gpu_choice/problems.hpp"
#include "kernel/problem_text.hpp"
#include "support/captured_log.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

class gpu_launches : public testing::Test {
protected:
    static void SetUpTestSuite() { use_fake_libraries(); }

    void SetUp() override {
        const std::string reason = why_not_comparable();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }
};

/// Makes and executes plans of all problems; the kernels that were chosen.
std::set<std::string> launch_all(
        std::vector<choice_problem> problems, bool specialise) {
    std::set<std::string> kernels;
    for (choice_problem &problem : problems) {
        SCOPED_TRACE(problem.name);
        problem.options.specialise = specialise;
        std::vector<kernel_choice> choices;
        EXPECT_NO_THROW(choices = choices_of(problem, true));
        for (const kernel_choice &choice : choices) {
            kernels.insert(choice.kernel);
            // A backend says how its kernel came to be.
            EXPECT_TRUE(choice.kernel != "interpolation.gpu_resample"
                    || choice.backend.starts_with(specialise
                                    ? "CUDA (compiled by NVRTC "
                                    : "CUDA (ahead of time: specialise is "
                                      "off)"))
                    << choice.backend;
            if (choice.kernel == "convolution.cudnn") continue;
            EXPECT_NE(choice.executed, "") << choice.kernel;
            EXPECT_NE(choice.executed_unaligned, "") << choice.kernel;
        }
    }
    return kernels;
}

TEST_F(gpu_launches, of_random_problems) {
    EXPECT_GE(launch_all(random_problems(4, 600), true).size(), 14U)
            << "the problems miss rows of the lists";
}

TEST_F(gpu_launches, of_bench_cases) {
    EXPECT_GE(launch_all(bench_problems(), true).size(), 13U)
            << "the cases miss rows of the lists";
}

// Odd attributes: windows that never meet src, pads below 0. Thinned, every fifth case.
TEST_F(gpu_launches, of_conformance_cases) {
    std::vector<choice_problem> problems;
    for (size_t number = 0; const choice_problem &each : suite_problems())
        if (number++ % 5 == 0 || !thinned()) problems.push_back(each);
    EXPECT_GE(launch_all(problems, true).size(), thinned() ? 6U : 10U)
            << "the cases miss rows of the lists";
}

// Of the tier that is compiled with the library. Thinned, every third problem: they come in
// eights, of four types and two layouts.
TEST_F(gpu_launches, of_bench_cases_with_specialise_off) {
    std::vector<choice_problem> problems;
    for (size_t number = 0; const choice_problem &each : bench_problems())
        if (number++ % 3 == 0 || !thinned()) problems.push_back(each);
    const auto kernels = launch_all(problems, false);
    EXPECT_GE(kernels.size(), 12U) << "the cases miss rows of the lists";
    EXPECT_FALSE(kernels.contains("convolution.gpu_sliding"));
}

// Depthwise: cuDNN where it has kernels of its own.
TEST_F(gpu_launches, of_depthwise_with_specialise_off) {
    using enum op::kind;
    constexpr auto f32 = data_type::f32, f64 = data_type::f64,
                   bf16 = data_type::bf16;
    const std::string cudnn = "convolution.cudnn",
                      direct = "convolution.gpu_direct";
    struct row {
        std::string kernel;
        op::kind kind;
        data_type type;
        size_t layout; ///< NCX, NXC
        std::vector<int64_t> sizes;
        int64_t stride = 1, dilation = 1;
    };
    const std::vector<int64_t> plane {20, 22}, line {400}, volume {6, 20, 22};
    for (const row &r : {row {cudnn, ConvolutionBackwardData, bf16, 0, plane},
                 {cudnn, ConvolutionBackwardData, bf16, 1, plane},
                 {cudnn, ConvolutionBackwardData, f32, 1, plane},
                 {direct, ConvolutionBackwardData, f32, 0, plane},
                 {direct, ConvolutionBackwardData, f64, 1, plane},
                 {direct, ConvolutionBackwardData, bf16, 1, plane, 2},
                 {direct, ConvolutionBackwardData, bf16, 1, plane, 1, 2},
                 {direct, ConvolutionBackwardData, bf16, 1, line},
                 {direct, ConvolutionBackwardData, bf16, 1, volume},
                 {direct, ConvolutionBackwardWeights, f32, 1, plane},
                 // A forward convolution.
                 {cudnn, ConvTransposeBackwardData, f32, 1, plane, 2}}) {
        const size_t rank = r.sizes.size();
        const auto of_all = [&](int64_t each) {
            return std::vector<int64_t>(rank, each);
        };
        const convolution_case c {"", 8, 32, 32, 32, r.sizes, of_all(3),
                of_all(r.stride), of_all(r.dilation), of_all(r.dilation),
                of_all(r.dilation)};
        choice_problem problem {
                "", convolution_op(r.kind, c, layouts()[r.layout], r.type), {}};
        problem.options.specialise = false;
        EXPECT_EQ(choices_of(problem, true).front().kernel, r.kernel)
                << to_string(r.kind) << " in " << to_string(r.type) << ", rank "
                << rank << ", layout " << r.layout << ", stride " << r.stride
                << ", dilation " << r.dilation;
    }
}

// Of those that keep to their multiprocessor, in place of more that an early start would put on
// those that are free first.
TEST_F(gpu_launches, of_tiles_are_as_many_as_fit) {
    const interpolation_case c {"", 115587, 24, {7}, {19}};
    choice_problem problem {"",
            interpolation_op(
                    c, {"nearest", "asymmetric"}, layouts()[0], data_type::f16),
            {}};
    const std::string launch = choices_of(problem, true).front().executed;
    const char *const text = launch.c_str() + launch.find('>') + 1;
    int grid = 0, threads = 0, shared_bytes = 0;
    ASSERT_EQ(std::sscanf(text, " %dx1x1 %dx1x1 %d", &grid, &threads,
                      &shared_bytes),
            3)
            << launch;
    const gpu::gpu_facts gpu = gpu::properties_of(0);
    const int at_once = gpu.shared_bytes / (shared_bytes + 1024);
    EXPECT_EQ(grid, gpu.multiprocessors * at_once) << launch;
}

/// One that interpolation.gpu_resample takes.
choice_problem interpolation() {
    return bench_problems().front();
}

TEST_F(gpu_launches, ahead_of_time_are_logged_with_the_reason) {
    choice_problem problem = interpolation();
    problem.options.specialise = false;
    const captured_log log(1);
    choices_of(problem, false);
    const auto lines = log.lines("kernel");
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines[0].at("note"),
            "interpolation.gpu_resample ahead of time: specialise is off");
}

/// Ends the process with what the backend of such a plan is without NVRTC.
[[noreturn]] void write_backend_without_nvrtc() {
    setenv("GRADNN_NVRTC", "/nowhere/libnvrtc.so.13", 1);
    const auto choices = choices_of(interpolation(), true);
    std::fputs(choices.at(0).backend.c_str(), stderr);
    std::exit(choices[0].executed.empty() ? 1 : 0);
}

// In a process of its own, which has loaded no NVRTC before.
TEST_F(gpu_launches, without_nvrtc_are_ahead_of_time) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(write_backend_without_nvrtc(), testing::ExitedWithCode(0),
            "^CUDA .ahead of time: NVRTC cannot be loaded.$");
}

// Ways to cut the work of a problem, made side by side.
TEST_F(gpu_launches, are_of_the_ways_that_are_not_refused) {
    using detail::plan_or_refusal;
    const auto odd_ones = [](size_t way) -> plan_or_refusal {
        if (way % 2 == 0)
            return plan_or_refusal::refuse("way " + std::to_string(way));
        return std::make_unique<gpu::launched_plan>(
                [](auto &&...) {}, 64 * way);
    };
    const detail::compile_options options {};
    EXPECT_EQ(gpu::fastest_of(1, odd_ones, {}, options).refusal, "way 0");
    const auto second = gpu::fastest_of(2, odd_ones, {}, options);
    ASSERT_TRUE(second.plan);
    EXPECT_EQ(second.plan->workspace_bytes(), 64U);
    EXPECT_TRUE(
            gpu::fastest_of(4, odd_ones, {}, options).plan); // two are timed
    const auto none = gpu::fastest_of(
            3,
            [](size_t way) {
                return plan_or_refusal::refuse("none " + std::to_string(way));
            },
            {}, options);
    EXPECT_FALSE(none.plan);
    EXPECT_EQ(none.refusal, "none 0");
    const auto fails = [](size_t) -> plan_or_refusal {
        throw error(status::out_of_memory, "no memory");
    };
    EXPECT_THROW(gpu::fastest_of(2, fails, {}, options), error);
}

// CUTLASS's kernels have ops in their stores where one launch writes the whole output: not
// where there are groups, positions that no tap meets, or an output that begins later.
TEST_F(gpu_launches, of_products_have_ops_behind_one_whole_part) {
    struct shape {
        std::array<int64_t, 3> src, dst, window, strides, pads, dilations;
        int64_t images = 1, groups = 1;
        bool f32 = false, f64 = false; ///< whether they have
    };
    constexpr std::array<int64_t, 3> ones {1, 1, 1};
    constexpr int64_t channels = 64;
    for (const shape &s : {
                 shape {{1, 16, 16}, {1, 16, 16}, {1, 3, 3}, ones, {0, 1, 1},
                         ones, 2, 1, true, true},
                 {{1, 16, 16}, {1, 8, 8}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, ones,
                         2, 1, true, false},
                 {{4, 16, 16}, {4, 16, 16}, {3, 3, 3}, ones, ones, ones, 2, 1,
                         true, true},
                 {{1, 16, 16}, {1, 16, 16}, {1, 3, 3}, ones, {0, 1, 1}, ones, 2,
                         2},
                 {{2, 16, 16}, {1, 16, 16}, {1, 3, 3}, {2, 1, 1}, {0, 1, 1},
                         ones},
                 {{1, 2, 16}, {1, 2, 16}, {1, 3, 3}, {1, 2, 1}, {0, 3, 1},
                         {1, 2, 1}},
                 {{1, 16, 16}, {2, 16, 16}, {3, 3, 3}, {2, 1, 1}, {3, 1, 1},
                         ones, 3},
         })
        for (const data_type type : {data_type::f32, data_type::f64}) {
            detail::fused_convolution all;
            all.epilogue = {detail::elementwise_kind::relu_backward};
            detail::convolution_problem &p = all.problem;
            p.direction = detail::convolution_direction::backward_data;
            const auto dense = [&](const std::array<int64_t, 3> &space) {
                return gpu::dense_channels_last({type,
                        {s.images, channels, space[0], space[1], space[2]}});
            };
            p.src = dense(s.src);
            p.dst = dense(s.dst);
            p.strides = s.strides;
            p.dilations = s.dilations;
            p.pads_begin = s.pads;
            const int64_t each = channels / s.groups;
            p.weights = {type,
                    {s.groups, each, each, s.window[0], s.window[1],
                            s.window[2]}};
            p.weights.strides
                    = gpu::dense_strides(p.weights.dims, {2, 5, 4, 3, 1, 0});
            const bool f32 = type == data_type::f32;
            auto &make = f32 ? gpu::implicit_gemm::make_tf32x3
                             : gpu::implicit_gemm::make_f64;
            SCOPED_TRACE(detail::text(detail::given(p), ' ', to_string(type)));
            const auto fused = make(all, {});
            EXPECT_EQ(fused.plan != nullptr, f32 ? s.f32 : s.f64)
                    << fused.refusal;
            if (!fused.plan) {
                EXPECT_TRUE(fused.refusal.starts_with("takes ops behind"))
                        << fused.refusal;
            }
            all.epilogue.clear();
            EXPECT_TRUE(make(all, {}).plan);
        }
}

} // namespace
} // namespace gradnn::test
