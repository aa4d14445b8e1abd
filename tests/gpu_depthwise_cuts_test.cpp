// How the depthwise kernels cut random problems of all sizes: what is launched fits the
// device, and nothing that kernels count in 32 bits overflows. Host arithmetic, on the
// stand-in for the CUDA runtime. What the parts cover: depthwise_emulated_test.
#include "gpu_cuts/depthwise.hpp"

#include <map>

#include "gpu/kernels.hpp"
#include "gpu/runtime/device.hpp"
#include "gpu_choice/choice.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::depthwise;

using wide = __int128;

wide product(std::initializer_list<int64_t> factors) {
    wide all = 1;
    for (const int64_t each : factors)
        all *= each;
    return all;
}

class depthwise_cuts : public testing::Test {
protected:
    void SetUp() override {
        const std::string reason = why_not_comparable();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }

    /// By "lines" or "planes", and direction; and what was refused.
    std::map<std::string, int> accepted_;
    int refused_ = 0;

    void check(const convolution_problem &problem, bool makes_plan) {
        SCOPED_TRACE(name_of(problem));
        const auto of = cut_of(problem, 132);
        if (!of) {
            ++refused_;
            return;
        }
        const auto &[shape, cut, of_weights] = *of;
        const bool of_lines = cut.of_lines();
        EXPECT_GE(cut.blocks(), 1);
        EXPECT_LT(product({cut.tiles, cut.bands, cut.image_parts}), INT32_MAX);
        EXPECT_LE(cut.shared_bytes, gpu::default_block_shared_bytes);
        EXPECT_LE(cut.steps, 5);
        // What kernels count in 32 bits.
        const wide number = of_lines
                ? product({shape.images, shape.down.read, cut.pieces})
                        + product({2, line_warps, cut.image_parts})
                : wide {ceil_div(shape.images, int64_t {cut.images})}
                        + cut.image_parts;
        EXPECT_LE(number, wide {INT32_MAX});
        ++accepted_[std::string(of_lines ? "lines" : "planes")
                + (of_weights ? ", weights" : ", data")];
        const wide bytes = of_weights ? product({cut.parts(), shape.channels, 4,
                                   shape.down.kernel, shape.along.kernel})
                                      : 0;
        EXPECT_LT(bytes, wide {1} << 62);
        if (!makes_plan) return;
        detail::compile_options options;
        options.convolution_workspace_limit = SIZE_MAX;
        const auto made = gpu::depthwise::make(problem, options);
        ASSERT_TRUE(made.plan) << made.refusal;
        EXPECT_EQ(made.plan->workspace_bytes(), bytes);
    }

    void expect_all_kinds() {
        for (const char *name : {"planes, data", "planes, weights",
                     "lines, data", "lines, weights"})
            EXPECT_GE(accepted_[name], 5) << name;
        EXPECT_GE(refused_, 5);
    }
};

TEST_F(depthwise_cuts, fit_the_device) {
    random_source random(test_seed(1));
    for (int left = 12000; left > 0 && !HasFailure(); --left)
        check(draw_depthwise(random,
                      left % 3 == 0 ? problem_size::few : problem_size::usual),
                left % 8 == 0);
    expect_all_kinds();
}

TEST_F(depthwise_cuts, fit_the_device_in_huge_problems) {
    random_source random(test_seed(2));
    for (int left = 12000; left > 0 && !HasFailure(); --left)
        check(draw_depthwise(random, problem_size::huge), false);
    expect_all_kinds();
}

// Negative pads leave most of src unread. Of 12 rows a block would have all of src, of 100 bands.
TEST_F(depthwise_cuts, of_planes_that_are_hardly_read) {
    for (const auto direction : {convolution_direction::forward,
                 convolution_direction::backward_weights})
        for (const int64_t rows : {12, 100}) {
            convolution_problem p;
            p.direction = direction;
            p.src.type = p.weights.type = p.dst.type = data_type::bf16;
            p.src.dims = {1, 1, 1, 2700000, 200};
            p.dst.dims = {1, 1, 1, rows, 200};
            p.weights.dims = {1, 1, 1, 1, 7, 7};
            p.pads_begin = {0, 3, 3};
            for (auto *const tensor : {&p.src, &p.dst}) {
                const int64_t plane = tensor->dims[3] * tensor->dims[4];
                tensor->strides = {plane, plane, plane, tensor->dims[4], 1};
            }
            p.weights.strides = {49, 49, 49, 49, 7, 1};
            check(p, false);
            EXPECT_EQ(refused_, rows == 12 ? 1 : 0);
            refused_ = 0;
        }
}

} // namespace
} // namespace gradnn::test
