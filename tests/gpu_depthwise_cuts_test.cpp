// How the depthwise families cut random problems of all sizes: what is launched fits the
// device, and nothing that kernels count in 32 bits overflows. Host arithmetic, on the
// stand-in for the CUDA runtime. What the parts cover: depthwise_emulated_test.
#include "gpu_cuts/depthwise.hpp"

#include <map>

#include "gpu/runtime/device.hpp"
#include "gpu_choice/choice.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::depthwise;

using wide = __int128;

/// What a kernel is launched with, and numbers that it holds in 32 bits.
struct figures {
    wide blocks = 0;
    int64_t threads = 0;
    int64_t most_threads = 256; ///< by the kernel's launch bounds
    int64_t shared_bytes = 0;
    int64_t most_shared_bytes = gpu::default_block_shared_bytes;
    std::vector<wide> numbers;
};

wide product(std::initializer_list<int64_t> factors) {
    wide all = 1;
    for (const int64_t each : factors)
        all *= each;
    return all;
}

wide taps_of_window(const problem_facts &facts) {
    const auto &axes = facts.shape.axes;
    return product({axes[0].kernel, axes[1].kernel, axes[2].kernel});
}

figures figures_of(const problem_facts &facts, const matrices::work_cut &cut) {
    figures made;
    made.threads = made.most_threads = matrices::block_warps * 32;
    made.shared_bytes = static_cast<int64_t>(cut.shared_bytes);
    made.blocks = product({cut.tiles, cut.bands, cut.image_parts});
    made.numbers = {ceil_div(facts.shape.images, int64_t {cut.images})
            + wide {cut.image_parts}};
    return made;
}

figures figures_of(const problem_facts &facts, const lines::work_cut &cut) {
    const problem_shape &shape = facts.shape;
    figures made;
    made.threads = lines::block_warps * 32;
    made.blocks = product({shape.channels, cut.parts});
    made.numbers = {product({shape.images, shape.axes[1].read, cut.pieces})
            + product({2, lines::block_warps, cut.parts})};
    EXPECT_LE(lines::steps_of_taps(shape.axes[2].kernel + cut.lead), 5);
    return made;
}

int64_t parts_of(const matrices::work_cut &cut) {
    return cut.parts();
}
int64_t parts_of(const lines::work_cut &cut) {
    return cut.parts;
}

class depthwise_cuts : public testing::Test {
protected:
    void SetUp() override {
        const std::string reason = why_not_comparable();
        if (!reason.empty()) GTEST_SKIP() << reason;
    }

    /// By "family, direction", and what was refused by "family".
    std::map<std::string, int> accepted_, refused_;

    template <typename Cut>
    void check(const char *name, const problem_facts &facts, bool makes_plan) {
        SCOPED_TRACE(name);
        std::array<Cut, 2> work;
        wide sums = 0;
        for (const bool vectors : {false, true}) {
            Cut &of = work[vectors ? 1 : 0];
            if (!cut(of, facts, vectors)) {
                ++refused_[name];
                return;
            }
            const figures found = figures_of(facts, of);
            EXPECT_GE(found.blocks, 1);
            EXPECT_LT(found.blocks, INT32_MAX);
            EXPECT_GE(found.threads, 1);
            EXPECT_LE(found.threads, found.most_threads);
            EXPECT_LE(found.shared_bytes, found.most_shared_bytes);
            for (size_t i = 0; i < found.numbers.size(); ++i)
                EXPECT_LT(found.numbers[i], wide {INT32_MAX} + 1)
                        << "number " << i;
            if (!facts.of_weights()) continue;
            EXPECT_GE(parts_of(of), 1);
            sums = std::max<wide>(sums, parts_of(of));
        }
        ++accepted_[name
                + std::string(facts.of_weights() ? ", weights" : ", data")];
        const wide bytes
                = sums * facts.shape.channels * 4 * taps_of_window(facts);
        EXPECT_LT(bytes, wide {1} << 62);
        if (!makes_plan) return;
        detail::compile_options options;
        options.convolution_workspace_limit = SIZE_MAX;
        const auto made = make<Cut>(facts.problem, options);
        ASSERT_TRUE(made.plan) << made.refusal;
        EXPECT_EQ(made.plan->workspace_bytes(), bytes);
    }

    void check_all(const convolution_problem &problem, bool makes_plans) {
        SCOPED_TRACE(name_of(problem));
        const auto facts = facts_of(problem, 132);
        if (!facts) return;
        check<matrices::work_cut>("matrices", *facts, makes_plans);
        check<lines::work_cut>("lines", *facts, makes_plans);
    }

    void expect_all_kinds() {
        for (const char *name : {"matrices", "lines"}) {
            EXPECT_GE(accepted_[name + std::string(", data")], 5) << name;
            EXPECT_GE(accepted_[name + std::string(", weights")], 5) << name;
            EXPECT_GE(refused_[name], 5) << name;
        }
    }
};

TEST_F(depthwise_cuts, fit_the_device) {
    random_source random(test_seed(1));
    for (int left = 12000; left > 0 && !HasFailure(); --left)
        check_all(draw_depthwise(random,
                          left % 3 == 0 ? problem_size::few
                                        : problem_size::usual),
                left % 8 == 0);
    expect_all_kinds();
}

TEST_F(depthwise_cuts, fit_the_device_in_huge_problems) {
    random_source random(test_seed(2));
    for (int left = 12000; left > 0 && !HasFailure(); --left)
        check_all(draw_depthwise(random, problem_size::huge), false);
    expect_all_kinds();
}

} // namespace
} // namespace gradnn::test
