// Which NVRTC is taken, and what is said of others (src/gpu/jit/compiler.cpp), with stand-ins
// for it and for the CUDA runtime. Needs no GPU.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "gpu/backend.hpp"
#include "gpu_choice/problems.hpp"
#include "support/loaded_kernel.hpp"

namespace gradnn::test {
namespace {

namespace fs = std::filesystem;
using detail::text;

/// In processes of their own, which have loaded no NVRTC before.
class nvrtc : public testing::Test {
protected:
    void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

    /// Whether such a process ends well, with these words.
    static void expect(
            const std::function<void()> &process, const std::string &words) {
        EXPECT_EXIT(process(), testing::ExitedWithCode(0), words);
    }
};

loaded load_any() {
    return load({gpu::jit::specification_name,
                        "extern \"C\" __global__ void nothing() {}", "nothing"},
            {});
}

/// Ends the process with what a load says that gets nothing from this NVRTC.
[[noreturn]] void fail_with(const char *path) {
    setenv("GRADNN_NVRTC", path, 1);
    const loaded found = load_any();
    std::fputs(found.refusal.c_str(), stderr);
    std::exit(found.kernel ? 1 : 0);
}

/// Ends the process with the NVRTC that it takes where it has loaded these versions, stand-ins
/// all.
[[noreturn]] void find_beside(const std::vector<int> &majors) {
    unsetenv("GRADNN_NVRTC");
    char folder[] = "/tmp/gradnn_nvrtc_XXXXXX";
    if (mkdtemp(folder) == nullptr) std::exit(1);
    for (const int major : majors) {
        const std::string path = text(folder, "/libnvrtc.so.", major);
        fs::copy_file(FAKE_NVRTC, path);
        if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
            std::exit(1);
    }
    const auto &found = gpu::find_kernel_compiler();
    const loaded made = load_any();
    fs::remove_all(folder);
    std::fputs(text(found.version, " of ", found.path, found.missing).c_str(),
            stderr);
    std::exit(made.kernel ? 0 : 1);
}

TEST_F(nvrtc, is_said_to_be_missing) {
    expect([] { fail_with("/nowhere/libnvrtc.so.13"); },
            "NVRTC cannot be loaded .*/nowhere/libnvrtc.so.13.*install it.*"
            "GRADNN_NVRTC");
}

TEST_F(nvrtc, is_refused_where_it_is_too_old) {
    expect([] { fail_with(OLD_NVRTC); },
            "NVRTC cannot be loaded .*is NVRTC 11.8; gradnn needs 12 or 13");
}

TEST_F(nvrtc, is_refused_where_it_is_newer_than_the_driver) {
    expect(
            [] {
                fake_cuda::set_driver_version(12090);
                fail_with(FAKE_NVRTC);
            },
            "is NVRTC 13.99, whose code the driver .of CUDA 12. does not load");
}

TEST_F(nvrtc, is_refused_where_it_is_another_library) {
    expect([] { fail_with(FAKE_CUDNN); },
            "NVRTC cannot be loaded .*is no NVRTC");
}

TEST_F(nvrtc, says_why_it_fails) {
    expect(
            [] {
                setenv("FAKE_NVRTC_FAILS", "1", 1);
                fail_with(FAKE_NVRTC);
            },
            "NVRTC 13.99 does not compile specification.hpp for sm_90: "
            "NVRTC_ERROR_OUT_OF_MEMORY; the stand-in has no room");
}

// The form of gpu_resample that takes everything, and another row than gpu_sliding.
TEST_F(nvrtc, leaves_problems_to_other_kernels_where_it_fails) {
    expect(
            [] {
                use_fake_libraries();
                setenv("FAKE_NVRTC_FAILS", "1", 1);
                std::string kernels;
                for (const choice_problem &each : bench_problems())
                    if (each.name == "fpn_2x ncx"
                            || each.name == "resnext_56_128_g32 ncx")
                        for (const auto &made : choices_of(each, false))
                            kernels += made.kernel + ' ';
                std::fputs(kernels.c_str(), stderr);
                std::exit(kernels.find("sliding") == std::string::npos ? 0 : 1);
            },
            "^interpolation.gpu_resample .*convolution");
}

TEST_F(nvrtc, of_the_process_is_taken_before_the_toolkits) {
    expect([] { find_beside({13}); },
            "^13.99 of /tmp/gradnn_nvrtc_.*/libnvrtc.so.13$");
}

TEST_F(nvrtc, may_be_of_version_12) {
    expect([] { find_beside({12}); },
            "^12.99 of /tmp/gradnn_nvrtc_.*/libnvrtc.so.12$");
}

TEST_F(nvrtc, is_of_the_version_of_gradnns_runtime_first) {
    constexpr int major = CUDART_VERSION / 1000;
    expect(
            [] {
                find_beside({25 - major, major});
            },
            text('^', major, ".99 of .*/libnvrtc.so.", major, '$'));
}

TEST_F(nvrtc, of_the_process_is_passed_over_where_it_is_newer_than_the_driver) {
    expect(
            [] {
                fake_cuda::set_driver_version(12090);
                find_beside({13, 12});
            },
            "^12.99 of .*/libnvrtc.so.12$");
}

} // namespace
} // namespace gradnn::test
