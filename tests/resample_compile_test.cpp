// interpolation.gpu_resample by NVRTC, for GPUs of all generations: what the estimates choose
// first compiles, has the registers and the shared memory that it is given, and rarely spills.
// Needs no GPU.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/backend.hpp"
#include "gpu_cuts/generations.hpp"
#include "gpu_cuts/resample.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::resample;

class resample_compile : public testing::TestWithParam<generation> {};

TEST_P(resample_compile, first_choices_fit) {
    const std::string &missing = gpu::find_kernel_compiler().missing;
    if (!missing.empty()) GTEST_SKIP() << missing;
    const generation &of = GetParam();
    const uint64_t seed = test_seed(20261130);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed + static_cast<uint64_t>(of.architecture));
    constexpr int wanted = 12;
    int spilling = 0;
    size_t spilled = 0;
    std::vector<double> seconds;
    while (seconds.size() < wanted) {
        const auto problem = random_fused_interpolation(random, 8);
        std::string refusal;
        const auto form = specification_of(problem, 16, refusal);
        if (!form) continue;
        const auto choices = choices_of(*form, of.facts);
        if (choices.empty()) continue;
        const cut &cut_by = choices.front().cut_by;
        const specification_of_kernel first {form->specification, cut_by};
        const std::string specification = text_of(first);
        SCOPED_TRACE(specification);
        const auto start = std::chrono::steady_clock::now();
        const auto kernel = compile_kernel("gpu/interpolation/kernel.cuh",
                specification, "gradnn_resample", of);
        seconds.push_back(std::chrono::duration<double>(
                std::chrono::steady_clock::now() - start)
                                  .count());
        const int threads = cut_by.threads * cut_by.blocks;
        EXPECT_LE((kernel.registers + 7) / 8 * 8 * threads, of.facts.registers);
        EXPECT_LE(threads, of.facts.threads);
        const int64_t shared = geometry_of(first).shared_bytes
                + static_cast<int64_t>(kernel.shared_bytes);
        EXPECT_LE(shared, of.facts.block_shared_bytes);
        EXPECT_LE((shared + 1024) * cut_by.blocks, of.facts.shared_bytes);
        if (kernel.local_bytes > 0) ++spilling;
        spilled = std::max(spilled, kernel.local_bytes);
    }
    std::sort(seconds.begin(), seconds.end());
    std::cout << "seconds to compile: median " << seconds[wanted / 2]
              << ", longest " << seconds.back() << "; " << spilling << " of "
              << wanted << " spill, up to " << spilled << " bytes\n";
    // A plan takes the next choice then.
    EXPECT_LE(spilling, 2);
    EXPECT_LE(spilled, 32U);
}

INSTANTIATE_TEST_SUITE_P(, resample_compile, testing::ValuesIn(generations),
        [](const auto &of) { return name_of(of.param); });

} // namespace
} // namespace gradnn::test
