// interpolation.gpu_resample by NVRTC, for GPUs of all generations: what the estimates choose
// first compiles, has the registers and the shared memory that it is given, and rarely spills.
// Needs no GPU.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fake_cuda/fat_binary.hpp"
#include "gpu/jit/compiler.hpp"
#include "gpu/jit/sources.hpp"
#include "gpu_cuts/resample.hpp"

namespace gradnn::test {
namespace {

using namespace gpu::resample;
namespace jit = gpu::jit;

struct generation {
    int architecture;
    gpu_facts facts;
};

// An A100, RTX 3090, RTX 4090, H100, B200 and RTX 5090.
constexpr generation generations[] = {
        {80, {108, 163 << 10, 164 << 10, 65536, 2048}},
        {86, {82, 99 << 10, 100 << 10, 65536, 1536}},
        {89, {128, 99 << 10, 100 << 10, 65536, 1536}},
        {90, resample_h100},
        {100, {148, 227 << 10, 228 << 10, 65536, 2048}},
        {120, {170, 99 << 10, 100 << 10, 65536, 1536}},
};

TEST(resample_compile, first_choices_fit_every_generation) {
    if (!jit::available()) GTEST_SKIP() << jit::missing_reason();
    const uint64_t seed = test_seed(20261130);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    int compiled = 0, spilling = 0;
    std::vector<double> seconds;
    constexpr int wanted = 36;
    while (compiled < wanted) {
        const auto problem = random_interpolation(random, 8);
        const generation &of = generations[compiled % 6];
        std::string refusal;
        const auto forms = specifications_of(
                problem, 16, of.architecture >= 90, refusal);
        const auto choices = choices_of(forms, of.facts);
        if (choices.empty()) continue;
        const specification_of_kernel &first = choices.front().specification;
        const std::string specification = text_of(first);
        ++compiled;
        SCOPED_TRACE(std::to_string(of.architecture) + "\n" + specification);
        jit::compilation what;
        what.files = jit::with_includes(
                "gpu/interpolation/resample/kernel.cuh", specification);
        what.architecture = of.architecture;
        const auto start = std::chrono::steady_clock::now();
        const jit::compiled_code made = jit::compile(what);
        seconds.push_back(std::chrono::duration<double>(
                std::chrono::steady_clock::now() - start)
                                  .count());
        ASSERT_EQ(made.refusal, "");
        const auto kernels = fake_cuda::read_machine_code(
                made.code.data(), made.code.size());
        const auto kernel = kernels.find("gradnn_resample");
        ASSERT_NE(kernel, kernels.end());
        const cut &c = first.cut_by;
        const int64_t registers = (kernel->second.registers + 7) / 8 * 8;
        EXPECT_LE(registers * c.threads * c.blocks, of.facts.registers);
        const int64_t shared = geometry_of(first).shared_bytes
                + static_cast<int64_t>(kernel->second.shared_bytes);
        EXPECT_LE(shared, of.facts.block_shared_bytes);
        EXPECT_LE((shared + 1024) * c.blocks, of.facts.shared_bytes);
        spilling += kernel->second.local_bytes > 0 ? 1 : 0;
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
