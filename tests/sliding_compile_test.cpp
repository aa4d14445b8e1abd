// convolution.gpu_sliding by NVRTC, for GPUs of all generations: what the estimates choose
// first compiles, has the registers and the shared memory that it is given, and rarely spills.
// Needs no GPU.
#include <algorithm>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "gpu/backend.hpp"
#include "gpu_cuts/generations.hpp"
#include "gpu_cuts/sliding.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::sliding;

class sliding_compile : public testing::TestWithParam<generation> {};

TEST_P(sliding_compile, first_choices_fit) {
    const std::string &missing = gpu::find_kernel_compiler().missing;
    if (!missing.empty()) GTEST_SKIP() << missing;
    const generation &of = GetParam();
    const uint64_t seed = test_seed(20261128);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed + static_cast<uint64_t>(of.architecture));
    constexpr int wanted = 16;
    int spilling = 0, fewer_blocks = 0;
    size_t spilled = 0;
    for (int compiled = 0; compiled < wanted;) {
        const auto problem = random_fused_depthwise(random, 4);
        const auto choices
                = ranked_choices(problem, 16, of.architecture >= 90, of.facts);
        if (choices.empty()) continue;
        ++compiled;
        const kernel_specification &s = choices.front().specification;
        const std::string specification = text_of(s);
        SCOPED_TRACE(specification);
        const bool weights = gpu::is_of_weights(problem.problem);
        const std::string what = weights ? "weights" : "data";
        const auto kernel = compile_kernel(
                "gpu/convolution/sliding/" + what + "_kernel.cuh",
                specification, "gradnn_slide_" + what, of);
        const int threads = s.cut.threads * s.cut.blocks;
        EXPECT_LE((kernel.registers + 7) / 8 * 8 * threads, of.facts.registers);
        EXPECT_LE(threads, of.facts.threads);
        const int64_t shared = static_cast<int64_t>(kernel.shared_bytes)
                + (weights ? weights_geometry::of(s).shared_bytes
                           : data_geometry::of(s).shared_bytes);
        EXPECT_LE(shared, of.facts.block_shared_bytes);
        if ((shared + 1024) * s.cut.blocks > of.facts.shared_bytes)
            ++fewer_blocks;
        if (kernel.local_bytes > 0) ++spilling;
        spilled = std::max(spilled, kernel.local_bytes);
    }
    std::cout << spilling << " of " << wanted << " spill, up to " << spilled
              << " bytes; shared memory holds fewer blocks of " << fewer_blocks
              << '\n';
    // A plan takes the next choice then.
    EXPECT_LE(spilling, 3);
    EXPECT_LE(spilled, 224U);
    // Their threads have fewer registers than they might.
    EXPECT_LE(fewer_blocks, 1);
}

INSTANTIATE_TEST_SUITE_P(, sliding_compile, testing::ValuesIn(generations),
        [](const auto &of) { return name_of(of.param); });

} // namespace
} // namespace gradnn::test
