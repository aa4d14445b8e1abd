// convolution.gpu_sliding by NVRTC, for GPUs of all generations: what the estimates choose
// first compiles, has the registers and the shared memory that it is given, and rarely spills.
// Needs no GPU.
#include <algorithm>
#include <array>
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

// Strides share the taps out among the results; what a kernel counts in 32 bits has a bound of its
// own. A description alone, however large its weights, is refused with its numbers.
TEST(sliding_problem, counts_the_terms_of_a_result) {
    using three = std::array<int64_t, 3>;
    const auto refusal_of = [](int64_t outputs, const three &window,
                                    const three &strides,
                                    const three &dilations = {1, 1, 1}) {
        detail::fused_convolution of;
        convolution_problem &p = of.problem;
        p.direction = convolution_direction::backward_data;
        p.src.type = p.dst.type = p.weights.type = data_type::f32;
        p.src.dims = {1, 1, 1, 1, 1};
        p.dst.dims = {1, outputs, 2, 2, 2};
        p.weights.dims = {1, outputs, 1, window[0], window[1], window[2]};
        p.strides = strides;
        p.dilations = dilations;
        for (size_t i = 0; i < 3; ++i)
            p.src.dims[2 + i] = strides[i] + (window[i] - 1) * dilations[i] + 1;
        p.src.strides = data_strides(p.src.dims, order::nxc);
        p.dst.strides = data_strides(p.dst.dims, order::nxc);
        p.weights.strides = weights_strides(p.weights.dims, 0);
        std::string refusal;
        specifications_of(of, 16, true, refusal);
        return refusal;
    };
    EXPECT_EQ(refusal_of(512, {1, 1, 10}, {1, 1, 5}), "");
    EXPECT_EQ(refusal_of(512, {1, 1, 16}, {1, 1, 2}), "");
    // Dilations that share a factor with the stride leave more taps to some results.
    EXPECT_EQ(refusal_of(512, {1, 1, 10}, {1, 1, 5}, {1, 1, 3}), "");
    for (const std::string &refusal : {refusal_of(513, {1, 1, 16}, {1, 1, 2}),
                 refusal_of(512, {1, 1, 10}, {1, 1, 5}, {1, 1, 5}),
                 refusal_of(16, {1, 4096, 4096}, {1, 4096, 4096}),
                 refusal_of(16, {64, 64, 64}, {64, 64, 4})})
        EXPECT_NE(refusal.find("4,096 terms"), std::string::npos) << refusal;
}

INSTANTIATE_TEST_SUITE_P(, sliding_compile, testing::ValuesIn(generations),
        [](const auto &of) { return name_of(of.param); });

} // namespace
} // namespace gradnn::test
