// convolution.gpu_sliding by NVRTC, for GPUs of all generations: what the estimates choose
// first compiles, and has the registers and the shared memory that it is given. Needs no GPU.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/backend.hpp"
#include "gpu_cuts/generations.hpp"
#include "gpu_cuts/sliding.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::sliding;

struct chosen {
    std::string specification;
    int threads;
    int64_t dynamic_bytes;
};

std::vector<chosen> first_of(const problem_specification &form,
        const gpu::gpu_facts &facts, bool weights) {
    const auto choices = weights ? weights_choices(form, facts)
                                 : data_choices(form, facts);
    if (choices.empty()) return {};
    const kernel_specification &s = choices.front().specification;
    return {{text_of(s), s.cut.threads,
            weights ? weights_geometry::of(s).shared_bytes
                    : data_geometry::of(s).shared_bytes}};
}

TEST(sliding_compile, first_choices_fit_every_generation) {
    const std::string &missing = gpu::find_kernel_compiler().missing;
    if (!missing.empty()) GTEST_SKIP() << missing;
    const uint64_t seed = test_seed(20261128);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    int compiled = 0, spilling = 0;
    constexpr int wanted = 36;
    while (compiled < wanted) {
        const auto problem = random_fused_depthwise(random, 4);
        const convolution_problem &p = problem.problem;
        const generation &of = generations[compiled % 6];
        std::string refusal;
        const auto forms = specifications_of(
                problem, 16, of.architecture >= 90, refusal);
        if (forms.empty()) continue;
        const bool weights
                = p.direction == convolution_direction::backward_weights;
        const auto first = first_of(forms[0], of.facts, weights);
        if (first.empty()) continue;
        ++compiled;
        SCOPED_TRACE(std::to_string(of.architecture) + "\n"
                + first[0].specification);
        const std::string what = weights ? "weights" : "data";
        const auto kernel = compile_kernel(
                "gpu/convolution/sliding/" + what + "_kernel.cuh",
                first[0].specification, "gradnn_slide_" + what, of);
        const int64_t registers = (kernel.registers + 7) / 8 * 8;
        EXPECT_LE(registers * first[0].threads, of.facts.registers);
        EXPECT_LE(first[0].dynamic_bytes
                        + static_cast<int64_t>(kernel.shared_bytes),
                of.facts.block_shared_bytes);
        spilling += kernel.local_bytes > 0 ? 1 : 0;
    }
    // A plan takes the next choice then.
    EXPECT_LE(spilling, wanted / 4);
}

} // namespace
} // namespace gradnn::test
