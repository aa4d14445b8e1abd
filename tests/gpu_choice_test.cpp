// The GPU engine's choice of kernels, on a machine without a GPU: plans are made
// on the host, for the stand-in of tests/fake_cuda, which has an H200's figures.
//
// No kernel runs here. What is tested is that a change of a kernel's rules, or of
// the lists, changes what was meant and nothing else.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include <cuda_runtime_api.h>

#include "base/text.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "gpu/backend.hpp"
#include "gpu/kernels.hpp"
#include "gpu_choice/problems.hpp"
#include "support/bench_case_ops.hpp"
#include "support/captured_log.hpp"
#include "support/op_builders.hpp"
#include "support/op_chains.hpp"
#include "support/plan_file.hpp"

namespace gradnn::test {
namespace {

const std::string choices_file = DATA_DIR "/gpu_choice/h200.txt";

class gpu_choice : public testing::Test {
protected:
    static void SetUpTestSuite() { use_fake_libraries(); }

    void SetUp() override {
        const std::string reason = why_not_comparable();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }
};

/// Lines of a file but those that begin with #.
std::vector<std::string> lines_of(const std::string &path) {
    std::ifstream file(path);
    EXPECT_TRUE(file) << path << " cannot be read";
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        if (!line.starts_with('#')) lines.push_back(line);
    return lines;
}

// The file is of one release of nvcc and of PTX for 9.0: others may use other registers, of
// which more or fewer blocks fit.
TEST_F(gpu_choice, of_bench_cases_is_as_before) {
    if (CUDART_VERSION / 1000 != 13)
        GTEST_SKIP() << choices_file << " was written with CUDA 13";
    const std::string_view code = gpu::code_of_library;
    if (!code.ends_with("PTX for 9.0"))
        GTEST_SKIP() << choices_file << " is of PTX for 9.0, not of " << code;
    const auto before = lines_of(choices_file);
    const auto now = summary_of(bench_problems());
    size_t different = 0;
    for (size_t index = 0; index < std::max(before.size(), now.size());
            ++index) {
        const auto line = [&](const std::vector<std::string> &of) {
            return index < of.size() ? of[index] : "(nothing)";
        };
        if (line(before) == line(now)) continue;
        if (++different <= 20)
            ADD_FAILURE() << "was " << line(before) << "\nis  " << line(now);
    }
    EXPECT_EQ(different, 0U)
            << "where that is meant, write the file anew:\n    "
               "( grep '^#' FILE; build/cuda/bin/gradnn_gpu_choice summary ) "
               "> NEW && mv NEW FILE\nwith "
            << choices_file << " for FILE";
}

// A kernel that no case is for is one that nobody measures. The CPU's rows:
// bench_cases_test.
TEST_F(gpu_choice, of_bench_cases_takes_each_row) {
    std::set<std::string> chosen;
    for (const choice_problem &problem : bench_problems())
        for (const kernel_choice &choice : choices_of(problem, false))
            chosen.insert(choice.kernel);
    EXPECT_EQ(rows_without_case(engine::kind::gpu, chosen), "")
            << "is the choice of no case of bench/cases.json";
}

// Cubic, antialiased and forward maps of any size: the kernel that is compiled for its
// problem; of more than 512 terms along an axis the one that takes everything.
TEST_F(gpu_choice, of_filters) {
    const engine e(engine::kind::gpu, 0);
    const interpolation_case large {"large", 2, 32, {256, 256}, {512, 512}};
    const interpolation_case small {"small", 1, 3, {9, 9}, {18, 18}};
    const interpolation_case long_rows {"long_rows", 1, 3, {9, 2}, {18, 2000}};
    const auto shrunk = [](interpolation_case c) {
        std::swap(c.src, c.dst);
        return c;
    };
    for (const bool forward : {false, true})
        for (const bool antialias : {false, true})
            for (const size_t which : {0U, 1U}) {
                interpolation_choice choice {antialias ? "linear" : "cubic"};
                choice.antialias = antialias;
                choice.forward = forward;
                const auto kernel_of = [&](const interpolation_case &c) {
                    return std::string(
                            compile(interpolation_op(c, choice,
                                            layouts()[which], data_type::bf16),
                                    e)
                                    .get_info()
                                    .steps.at(0)
                                    .kernel);
                };
                // Antialias is one where the image shrinks.
                for (const interpolation_case &c : {large, small})
                    EXPECT_EQ(kernel_of(antialias ? shrunk(c) : c),
                            "interpolation.gpu_resample");
                // An input of the gradient of cubic has as many outputs, an output of
                // antialias as many inputs; the other way there are few.
                EXPECT_EQ(kernel_of(antialias ? shrunk(long_rows) : long_rows),
                        antialias == forward ? "interpolation.gpu_strided"
                                             : "interpolation.gpu_resample");
            }
}

// One kernel computes an interpolation and the ops of single elements around it where it is
// the interpolation's choice and no tensor lies otherwise; else each op has its step.
TEST_F(gpu_choice, of_groups_is_one_kernel_where_that_fuses) {
    using kind = op::kind;
    const engine e(engine::kind::gpu, 0);
    const link up {kind::InterpolateBackward}, add {kind::Add, 1},
            relu {kind::ReLUBackward};
    const chain_shape large {2, 64, {256, 256}};
    const auto info_of = [&](const std::vector<op> &ops) {
        const graph_run run(ops, e, partition::policy::fusion);
        EXPECT_EQ(run.partitions().size(), 1U);
        return run.compiled().at(0).get_info();
    };
    const auto steps_of = [&](const std::vector<link> &links, size_t which,
                                  data_type type) {
        const auto ops = chain_of(links, layouts()[which], type, large);
        const auto info = info_of(ops);
        EXPECT_EQ(info.inner.size(), links.size() - 1);
        EXPECT_EQ(info.steps.size() == 1, info.workspace_bytes == 0);
        if (info.steps.size() == 1) {
            EXPECT_EQ(info.steps[0].kernel, "interpolation.gpu_resample");
            EXPECT_EQ(info.steps[0].op_id, ops.back().get_id());
        }
        return info.steps.size();
    };
    constexpr size_t ncx = 0, nxc = 1;
    for (const auto &links : {std::vector<link> {up, add}, {up, relu},
                 {up, add, relu}, {add, up}, {relu, up}})
        for (const data_type type : float_types()) {
            SCOPED_TRACE(detail::text(to_string(links[0].kind), ' ',
                    to_string(links[1].kind), ' ', to_string(type)));
            EXPECT_EQ(steps_of(links, nxc, type), 1U);
            EXPECT_EQ(steps_of(links, ncx, type), 1U);
        }
    {
        const forced_kernel another("interpolation.gpu_strided");
        EXPECT_EQ(steps_of({up, add}, ncx, data_type::f32), 2U);
    }
    // What is added lies otherwise.
    auto ops = chain_of({up, add}, layouts()[nxc], data_type::f32, large);
    auto inputs = ops[1].get_inputs();
    const auto dims = inputs[0].get_dims();
    const int64_t plane = dims[1] * dims[2];
    inputs[0] = {inputs[0].get_id(), data_type::f32, dims,
            sizes {plane * dims[3], dims[2], 1, plane}};
    ops[1] = with_ports(ops[1], 1, inputs, ops[1].get_outputs());
    EXPECT_EQ(info_of(ops).steps.size(), 2U);
    const forced_kernel as_ops("partition.ops");
    EXPECT_EQ(steps_of({up, add}, nxc, data_type::f32), 2U);
}

// So with ops behind the data of a convolution, whose other gradients have steps, where its
// kernel writes the caller's tensor; what one may write twice is not written over an input.
TEST_F(gpu_choice, of_groups_has_ops_in_the_stores_of_convolutions) {
    using kind = op::kind;
    const engine e(engine::kind::gpu, 0);
    for (const bool depthwise : {true, false})
        for (const layout &l : {layouts()[0], layouts()[1]}) {
            const captured_log log(2);
            const graph_run run(
                    chain_of({{kind::ConvBackward}, {kind::Add, 1},
                                     {kind::ReLUBackward}},
                            l, data_type::f32, {4, 64, {56, 56}, depthwise}),
                    e, partition::policy::fusion);
            ASSERT_EQ(run.partitions().size(), 1U);
            const compiled_partition &made = run.compiled().at(0);
            std::vector<size_t> ops;
            for (const step_info &step : made.get_info().steps)
                ops.push_back(step.op_id);
            const size_t steps = ops.size();
            SCOPED_TRACE(detail::text(l.name, ' ', depthwise));
            const bool fused = depthwise || std::string_view(l.name) == "nxc";
            EXPECT_EQ(std::ranges::count(ops, 1U), fused ? 0 : 1);
            EXPECT_EQ(ops.back(), 2U);
            EXPECT_EQ(made.get_info().steps.back().kernel,
                    depthwise       ? "convolution.gpu_sliding"
                            : fused ? "convolution.gpu_tf32x3"
                                    : "elementwise.gpu");
            EXPECT_EQ(made.get_inplace_ports().empty(), fused);
            EXPECT_EQ(steps, fused ? 3U : 5U);
            // The log says why not.
            std::vector<std::string> reasons;
            for (const auto &line : log.lines("dispatch"))
                if (line.at("steps") == "2.diff_src:partition.fused")
                    reasons.push_back(line.at("note"));
            std::vector<std::string> expected;
            if (!fused)
                expected = {"convolution.gpu_tf32x3: takes ops behind where "
                            "the output is channels last and of whole 16 "
                            "bytes (f64: without strides)"};
            EXPECT_EQ(reasons, expected);
        }
}

// cuDNN is asked for ops behind a convolution's data of whole words of channels alone.
TEST_F(gpu_choice, of_cudnn_has_ops_behind_multiples_of_eight_channels) {
    for (const auto &[src, dst] :
            {std::pair {64, 64}, {64, 12}, {12, 64}, {20, 24}, {8, 16}}) {
        SCOPED_TRACE(detail::text(src, " to ", dst, " channels"));
        detail::fused_convolution all;
        all.epilogue = {detail::elementwise_kind::relu_backward};
        detail::convolution_problem &p = all.problem;
        p.direction = detail::convolution_direction::backward_data;
        const auto lay_out = [](auto &tensor, int64_t channels) {
            tensor.type = detail::data_type::f16;
            tensor.dims = {2, channels, 1, 7, 9};
            tensor.strides
                    = {63 * channels, 1, 63 * channels, 9 * channels, channels};
        };
        lay_out(p.src, src);
        lay_out(p.dst, dst);
        p.weights.type = detail::data_type::f16;
        p.weights.dims = {1, dst, src, 1, 1, 1};
        p.weights.strides = {src * dst, src, 1, 1, 1, 1};
        detail::compile_options options;
        options.specialise = true;
        std::string answer;
        try {
            answer = gpu::cudnn::make_fused(all, options).refusal;
        } catch (const error &failure) {
            answer = failure.what();
        }
        const bool wanted = src % 8 == 0 && dst % 8 == 0;
        EXPECT_NE(answer.find(wanted ? "a stand-in for cuDNN"
                                     : "multiples of 8 channels"),
                std::string::npos)
                << answer;
    }
}

// ReLU's gradient ahead of a convolution is a step with the bias gradient, which comes first:
// the other gradients read what it leaves in the workspace. But for what is broadcast.
TEST_F(gpu_choice, of_groups_has_relu_in_the_bias_gradient) {
    const auto steps_of = [](const std::vector<op> &ops, const char *kernels) {
        const forced_kernel forced(kernels);
        const captured_log log(1);
        const graph_run run(
                ops, engine(engine::kind::gpu, 0), partition::policy::fusion);
        EXPECT_GE(run.compiled().at(0).get_workspace_size(), 9504U); // of bf16
        return log.lines("compile").back().at("steps") + ' '
                + log.lines("compile").back().at("note");
    };
    const std::string relu = "0.diff_src:elementwise.gpu ",
                      bias = "1.diff_bias:bias.gpu_reduce ",
                      others = "1.diff_src:convolution.gpu_direct "
                               "1.diff_weights:convolution.gpu_direct ";
    for (const auto conv :
            {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
        for (const layout &l : layouts()) {
            const auto ops = chain_of({{op::kind::ReLUBackward}, {conv}}, l,
                    data_type::bf16, {4, 12, {9, 11}});
            EXPECT_EQ(steps_of(ops, "convolution.gpu_direct"),
                    l.name == "broadcast" ? relu + others + bias
                                          : bias + others + "fused");
            EXPECT_EQ(steps_of(ops, "convolution.gpu_direct,partition.ops"),
                    relu + others + bias);
        }
}

// Of few channels plain products are taken where tensor cores would multiply zeros, and
// nothing yields to cuDNN where that is known to refuse.
TEST_F(gpu_choice, follows_the_numbers_of_products) {
    /// Square planes and windows, padded to keep their size, in NXC.
    struct row {
        const char *kernel;
        data_type type;
        int64_t images, groups, src, dst, points, window;
        bool to_src = true;
    };
    constexpr auto f32 = data_type::f32, f64 = data_type::f64,
                   bf16 = data_type::bf16;
    const char *const plain = "convolution.gpu_sliding";
    const char *const f64_tiles = "convolution.gpu_f64";
    const char *const cudnn = "convolution.cudnn";
    for (const row &r : {row {plain, f64, 16, 1, 8, 8, 64, 3},
                 {f64_tiles, f64, 16, 1, 64, 64, 64, 3},
                 // Thirteen parts, one after the other, by tiles.
                 {plain, f32, 16, 13, 416, 416, 10, 3},
                 // Groups of 2 and 6 channels, of 2 and 2, of 32 and 32.
                 {plain, f32, 8, 12, 24, 72, 56, 3},
                 {plain, bf16, 8, 4, 8, 8, 56, 3},
                 {cudnn, bf16, 8, 4, 128, 128, 56, 3},
                 // Products of matrices in f64 are cuDNN's, but not sums of 100,352
                 // terms for so few weights.
                 {f64_tiles, f64, 32, 1, 64, 64, 56, 1, false},
                 {cudnn, f64, 4, 1, 64, 64, 56, 1}})
        for (const op::kind kind : {op::kind::ConvolutionBackwardData,
                     op::kind::ConvolutionBackwardWeights}) {
            if (kind == op::kind::ConvolutionBackwardData && !r.to_src)
                continue;
            const int64_t pad = r.window / 2;
            const convolution_case c {"", r.images, r.groups, r.src, r.dst,
                    {r.points, r.points}, {r.window, r.window}, {1, 1}, {1, 1},
                    {pad, pad}, {pad, pad}};
            const op the_op = convolution_op(kind, c, layouts()[1], r.type);
            EXPECT_EQ(choices_of({"", the_op, {}}, false).front().kernel,
                    r.kernel)
                    << to_string(kind) << " in " << to_string(r.type) << ", "
                    << r.groups << " groups, " << r.src << " to " << r.dst;
        }
}

// Dense NCX is computed with channels last: an output that is left open lies so, and
// its step is that of a caller who asked for that layout.
TEST_F(gpu_choice, lays_out_open_outputs_as_its_kernel_writes_them) {
    const op open = convolution_op(op::kind::ConvolutionBackwardData,
            {"open", 4, 1, 64, 64, {28, 28}, {3, 3}, {1, 1}, {1, 1}, {1, 1},
                    {1, 1}},
            layouts()[11], data_type::f32); // any_ncx
    set_compiled_partition_cache_capacity(0);
    const engine gpu(engine::kind::gpu, 0);
    const auto compiled = compile_with(open, {}, gpu);
    const logical_tensor made = compiled.query_logical_tensor(
            open.get_outputs().front().get_id());
    EXPECT_EQ(made.get_strides(),
            (logical_tensor::dims {64 * 28 * 28, 1, 64 * 28, 64}));
    op given(open.get_id(), open.get_kind(), open.get_inputs(), {made},
            open.get_name());
    for (const auto &[name, value] : open.get_attrs())
        std::visit([&, key = name](const auto &v) { given.set_attr(key, v); },
                value);
    const auto expected = compile_with(given, {}, gpu).get_info().steps;
    set_compiled_partition_cache_capacity(1024);
    const auto steps = compiled.get_info().steps;
    ASSERT_EQ(steps.size(), 1U);
    ASSERT_EQ(expected.size(), 1U);
    EXPECT_EQ(steps[0].kernel, expected[0].kernel);
    EXPECT_EQ(steps[0].backend, expected[0].backend);
    EXPECT_EQ(steps[0].workspace_bytes, expected[0].workspace_bytes);
}

// What a launch reads is the plan's, not the maker's.
TEST_F(gpu_choice, plans_of_gpu_strided_hold_their_tables) {
    detail::interpolation_problem problem;
    problem.diff_src.dims = {1, 1, 1, 1, 2};
    problem.diff_dst.dims = {1, 1, 1, 1, 2048};
    problem.diff_src.strides = problem.diff_dst.strides = {1, 1, 1, 1, 1};
    problem.diff_src.type = problem.diff_dst.type = data_type::f32;
    for (detail::interpolation_axis &axis : problem.axes)
        axis.src = axis.dst = 1;
    problem.axes[2].src = 2;
    problem.axes[2].dst = 2048;
    const auto free_bytes = [] {
        size_t available = 0, all = 0;
        EXPECT_EQ(cudaMemGetInfo(&available, &all), cudaSuccess);
        return available;
    };
    const size_t before = free_bytes();
    auto made = gpu::resample::make_strided(problem, {});
    ASSERT_TRUE(made.plan) << made.refusal;
    constexpr size_t weights = 2048 * sizeof(float);
    EXPECT_LE(free_bytes() + weights, before);
    made.plan.reset();
    EXPECT_EQ(free_bytes(), before);
}

// Of each kernel of the library there is machine code, whose registers are read.
TEST(fake_cuda, knows_every_kernel) {
    EXPECT_GT(fake_cuda::kernel_count(), 100U);
    const auto unreadable = fake_cuda::unreadable_kernels();
    if (!unreadable.empty()) GTEST_SKIP() << unreadable.front();
}

TEST(fake_cuda, names_kernels_as_their_sources_do) {
    EXPECT_EQ(fake_cuda::readable_name("_ZN6gradnn3gpu6kernelIfLi2EEEvPKT_i"),
            "kernel<float, 2>");
    EXPECT_EQ(fake_cuda::readable_name("_ZN6gradnn3gpu54_GLOBAL__N__"
                                       "01234567_9_planes_cu_89abcdef_"
                                       "1234567890126kernelEv"),
            "kernel");
}

} // namespace
} // namespace gradnn::test
