// Which problems that oneDNN could compute go to other kernels, which were
// measured to be faster there (src/cpu/convolution/onednn/or_gemm.cpp and
// choice.cpp), and that their neighbours do not.
#include <ostream>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

struct chosen_kernel {
    std::string name;
    op::kind kind;
    convolution_case problem;
    std::string layout;
    std::string kernel;
};

void PrintTo(const chosen_kernel &each, std::ostream *to) {
    *to << each.name << " " << each.layout << " " << each.kernel;
}

convolution_case line(
        int64_t channels, int64_t points, int64_t window, int64_t stride) {
    return {"line", 2, 1, channels, channels, {points}, {window}, {stride}, {1},
            {0}, {0}};
}

convolution_case square(int64_t channels, int64_t points, int64_t window,
        int64_t stride, int64_t pad) {
    return {"square", 2, 1, channels, channels, {points, points},
            {window, window}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
}

std::vector<chosen_kernel> chosen_kernels() {
    const op::kind weights = op::kind::ConvolutionBackwardWeights;
    const op::kind data = op::kind::ConvolutionBackwardData;
    // The gradient of src of a transposed convolution is one forward.
    const op::kind forward = op::kind::ConvTransposeBackwardData;
    const std::string gemm = "convolution.gemm";
    const std::string onednn = "convolution.onednn";
    return {
            {"positions_4096_bytes_apart", forward, line(128, 8200, 16, 8),
                    "nxc", gemm},
            {"positions_4096_bytes_apart", forward, line(128, 2400, 16, 8),
                    "ncx", gemm},
            {"few_positions_4096_bytes_apart", forward, line(128, 800, 16, 8),
                    "nxc", onednn},
            {"positions_3072_bytes_apart", forward, line(96, 8200, 16, 8),
                    "nxc", onednn},
            {"windows_over_one_position", weights, square(64, 4, 4, 1, 0),
                    "ncx", gemm},
            {"windows_over_four_positions", weights, square(64, 5, 4, 1, 0),
                    "ncx", onednn},
            {"windows_side_by_side", weights, square(64, 16, 2, 2, 0), "nxc",
                    gemm},
            {"windows_side_by_side", weights, square(64, 16, 2, 2, 0), "ncx",
                    onednn},
            {"large_planes", weights, square(48, 116, 3, 1, 1), "ncx", gemm},
            {"smaller_planes", weights, square(48, 112, 3, 1, 1), "ncx",
                    onednn},
            {"large_planes_of_few_channels", weights, square(40, 116, 3, 1, 1),
                    "ncx", onednn},
            {"one_axis", weights, line(64, 500, 3, 1), "nxc", gemm},
            {"one_axis_strided", weights, line(64, 500, 3, 2), "nxc", onednn},
            {"few_channels_and_products", data, square(8, 12, 3, 1, 1), "ncx",
                    "convolution.planes"},
            {"few_channels_strided", data, square(8, 12, 3, 2, 1), "ncx",
                    "convolution.planes"},
            {"sixteen_channels", data, square(16, 56, 3, 1, 1), "ncx", onednn},
            {"sixteen_channels", data, square(16, 56, 3, 1, 1), "nxc", onednn},
    };
}

class onednn_or_gemm : public testing::TestWithParam<chosen_kernel> {};

TEST_P(onednn_or_gemm, is_chosen) {
    const chosen_kernel &each = GetParam();
    const op the_op = convolution_op(each.kind, each.problem,
            layouts()[each.layout == "ncx" ? 0 : 1], data_type::f32);
    const engine cpu = shared_engine(engine::kind::cpu);
    // The rules are for oneDNN's kernels that are compiled for the problem.
    const op usual = convolution_op(op::kind::ConvolutionBackwardWeights,
            square(64, 32, 3, 1, 1), layouts()[0], data_type::f32);
    const std::string backend
            = compile(usual, cpu).get_info().steps.front().backend;
    if (backend.find("(jit:") == std::string::npos)
        GTEST_SKIP() << "oneDNN has no such kernels here: " << backend;
    const auto info = compile(the_op, cpu).get_info();
    ASSERT_EQ(info.steps.size(), 1U);
    EXPECT_EQ(info.steps[0].kernel, each.kernel);
}

// Modes that round factors let oneDNN's sums be longer, not as long as they come.
TEST(onednn_sums, have_an_end_under_relaxed_modes) {
    const auto kernel = [](fpmath_mode mode, int64_t points) {
        convolution_case c = square(16, points, 3, 1, 1);
        c.n = 1;
        const op the_op = convolution_op(op::kind::ConvolutionBackwardWeights,
                c, layouts()[0], data_type::f32);
        graph g(engine::kind::cpu, mode);
        g.add_op(the_op);
        g.finalize();
        return g.get_partitions()
                .at(0)
                .compile(the_op.get_inputs(), the_op.get_outputs(),
                        shared_engine(engine::kind::cpu))
                .get_info()
                .steps.at(0)
                .kernel;
    };
    if (kernel(fpmath_mode::strict, 100) != "convolution.onednn")
        GTEST_SKIP() << "oneDNN has no such kernel here";
    for (const fpmath_mode mode : {fpmath_mode::bf16, fpmath_mode::any}) {
        EXPECT_EQ(kernel(mode, 440), "convolution.onednn");
        EXPECT_NE(kernel(mode, 480), "convolution.onednn");
    }
    EXPECT_NE(kernel(fpmath_mode::strict, 440), "convolution.onednn");
}

INSTANTIATE_TEST_SUITE_P(rules, onednn_or_gemm,
        testing::ValuesIn(chosen_kernels()), [](const auto &each) {
            return each.param.name + "_" + each.param.layout;
        });

} // namespace
} // namespace gradnn::test
