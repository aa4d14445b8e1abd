// GRADNN_TEST_SIMD=AVX2 (or another name of cpu::simd_targets()) runs a test
// program with the CPU's SIMD kernels compiled for that instruction set;
// GRADNN_TEST_SIMD=baseline with those for the least. Where the machine has no
// such set, all tests skip and say so.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "cpu/simd/simd_target.hpp"

namespace gradnn::test {

namespace {

class simd_environment : public testing::Environment {
public:
    void SetUp() override {
        const char *const given = std::getenv("GRADNN_TEST_SIMD");
        if (given == nullptr) return;
        const std::string wanted = given;
        const std::string name
                = wanted == "baseline" ? cpu::simd_targets().back() : wanted;
        if (!cpu::set_simd_target(name))
            GTEST_SKIP() << "this machine has no " << name;
        ASSERT_EQ(cpu::simd_target(), name);
    }
};

// GoogleTest owns it.
[[maybe_unused]] testing::Environment *const registered
        = testing::AddGlobalTestEnvironment(new simd_environment);

} // namespace

} // namespace gradnn::test
