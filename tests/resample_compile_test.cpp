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

TEST(resample_compile, first_choices_fit_every_generation) {
    const std::string &missing = gpu::find_kernel_compiler().missing;
    if (!missing.empty()) GTEST_SKIP() << missing;
    const uint64_t seed = test_seed(20261130);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    int compiled = 0, spilling = 0;
    std::vector<double> seconds;
    constexpr int wanted = 36;
    while (compiled < wanted) {
        const auto problem = random_fused_interpolation(random, 8);
        const generation &of = generations[compiled % 6];
        std::string refusal;
        const auto forms = specifications_of(problem, 16, refusal);
        const auto choices = choices_of(forms, of.facts);
        if (choices.empty()) continue;
        const auto &[cost, form, cut_by] = choices.front();
        const specification_of_kernel first {forms[form].specification, cut_by};
        const std::string specification = text_of(first);
        ++compiled;
        SCOPED_TRACE(std::to_string(of.architecture) + "\n" + specification);
        const auto start = std::chrono::steady_clock::now();
        const auto kernel
                = compile_kernel("gpu/interpolation/resample/kernel.cuh",
                        specification, "gradnn_resample", of);
        seconds.push_back(std::chrono::duration<double>(
                std::chrono::steady_clock::now() - start)
                                  .count());
        const cut &c = first.cut_by;
        const int64_t registers = (kernel.registers + 7) / 8 * 8;
        EXPECT_LE(registers * c.threads * c.blocks, of.facts.registers);
        const int64_t shared = geometry_of(first).shared_bytes
                + static_cast<int64_t>(kernel.shared_bytes);
        EXPECT_LE(shared, of.facts.block_shared_bytes);
        EXPECT_LE((shared + 1024) * c.blocks, of.facts.shared_bytes);
        spilling += kernel.local_bytes > 0 ? 1 : 0;
    }
    // A plan takes the next choice then.
    EXPECT_LE(spilling, wanted / 6);
    std::sort(seconds.begin(), seconds.end());
    std::cout << "seconds to compile: median " << seconds[wanted / 2]
              << ", longest " << seconds.back() << "; " << spilling << " of "
              << wanted << " spill\n";
}

} // namespace
} // namespace gradnn::test
