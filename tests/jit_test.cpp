// Kernels compiled at run time (src/gpu/jit): by NVRTC itself, loaded by a stand-in for
// the CUDA runtime. Needs no GPU.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>

#include "base/text.hpp"
#include "fake_cuda/fake_cuda.hpp"
#include "fake_cuda/fat_binary.hpp"
#include "gpu/backend.hpp"
#include "gpu/jit/load.hpp"
#include "support/loaded_kernel.hpp"

namespace gradnn::test {
namespace {

namespace fs = std::filesystem;
using detail::text;
using gpu::jit::kernel_request;
using gpu::jit::specification_name;

/// A kernel that no other test has: of each element type, vectors of 1 and more.
kernel_request scaling_kernel(const std::string &factor) {
    return {specification_name,
            text(R"(#include "gpu/device/early_start.cuh"
#include "gpu/device/elements.cuh"
using namespace gradnn::gpu::jit;
struct facts { int factor; };
constexpr facts specification {)",
                    factor, R"(};
template <element type, int count>
__device__ void scale(const void *given, void *made) {
    const auto *from = static_cast<const stored_of<type> *>(given);
    auto *to = static_cast<stored_of<type> *>(made);
    const int at = count * static_cast<int>(threadIdx.x);
    const auto values = elements<type, count>::load(from + at);
    sum_of<type> scaled[count];
    for (int i = 0; i < count; ++i)
        scaled[i] = multiply_add(
                values[i], sum_of<type>(specification.factor), values[i]);
    elements<type, count>::of(scaled).stream(to + at);
}
extern "C" __global__ void __launch_bounds__(128) scale_all(
        const void *given, void *made) {
    gradnn::gpu::wait_for_earlier_work();
    scale<element::f32, 1>(given, made);
    scale<element::f32, 4>(given, made);
    scale<element::f64, 2>(given, made);
    scale<element::bf16, 1>(given, made);
    scale<element::bf16, 8>(given, made);
    scale<element::f16, 1>(given, made);
    scale<element::f16, 8>(given, made);
}
)"),
            "scale_all"};
}

detail::compile_options without_disk() {
    return {};
}

/// Lines of the log until the end of the scope.
class kept_log {
public:
    kept_log() {
        set_verbose(1);
        set_log_callback(
                [](const char *line, void *to) {
                    *static_cast<std::string *>(to) += std::string(line) + '\n';
                },
                &lines_);
    }
    kept_log(const kept_log &) = delete;
    kept_log &operator=(const kept_log &) = delete;
    ~kept_log() {
        set_log_callback(nullptr, nullptr);
        set_verbose(0);
    }

    size_t count(const std::string &words) const {
        size_t found = 0;
        for (size_t at = 0; (at = lines_.find(words, at)) != std::string::npos;
                ++at)
            ++found;
        return found;
    }
    const std::string &lines() const { return lines_; }

private:
    std::string lines_;
};

class jit : public testing::Test {
protected:
    void SetUp() override {
        const std::string &missing = gpu::find_kernel_compiler().missing;
        if (!missing.empty()) GTEST_SKIP() << missing;
    }
};

TEST_F(jit, compiles_for_gpus_of_every_generation) {
    const kernel_request request = scaling_kernel("2");
    gpu::jit::compilation what;
    what.source = request.source;
    what.specification = request.specification;
    for (const int architecture : {80, 86, 89, 90, 100, 120}) {
        SCOPED_TRACE(architecture);
        what.architecture = architecture;
        const std::string code = what.code();
        if (what.target() != text("sm_", architecture))
            continue; // an older NVRTC
        const auto kernels
                = fake_cuda::read_machine_code(code.data(), code.size());
        ASSERT_TRUE(kernels.contains("scale_all"));
        const fake_cuda::kernel_code &kernel = kernels.at("scale_all");
        EXPECT_GT(kernel.registers, 0);
        EXPECT_LE(kernel.registers, 64);
        EXPECT_EQ(kernel.local_bytes, 0U);
        EXPECT_EQ(kernel.most_threads, 128);
    }
}

TEST_F(jit, gives_ptx_of_the_newest_it_knows_to_a_later_gpu) {
    const kernel_request request = scaling_kernel("3");
    gpu::jit::compilation what;
    what.source = request.source;
    what.specification = request.specification;
    what.architecture = 999;
    EXPECT_TRUE(what.target().starts_with("compute_")) << what.target();
    const std::string code = what.code();
    EXPECT_NE(code.find(".entry scale_all"), std::string::npos);
    EXPECT_EQ(code.back(), '\0');
}

TEST_F(jit, refuses_gpus_that_are_too_old) {
    const kernel_request request = scaling_kernel("3");
    gpu::jit::compilation what;
    what.source = request.source;
    what.specification = request.specification;
    what.architecture = 75;
    std::string refusal;
    try {
        what.code();
    } catch (const error &refused) {
        refusal = refused.what();
    }
    EXPECT_NE(refusal.find("8.0 and above; the device has 7.5"),
            std::string::npos)
            << refusal;
}

TEST_F(jit, loads_a_kernel_once) {
    const kept_log log;
    const size_t before = fake_cuda::loaded_libraries();
    const auto first = load(scaling_kernel("5"), without_disk()).kernel;
    ASSERT_TRUE(first);
    EXPECT_EQ(load(scaling_kernel("5"), without_disk()).kernel, first);
    EXPECT_EQ(fake_cuda::loaded_libraries(), before + 1);
    EXPECT_EQ(log.count("compiled by NVRTC"), 1U) << log.lines();
    EXPECT_TRUE(first->backend.starts_with("CUDA (compiled by NVRTC "))
            << first->backend;
    EXPECT_GT(first->attributes.numRegs, 0);
    EXPECT_EQ(first->attributes.localSizeBytes, 0U);
    const auto other = load(scaling_kernel("6"), without_disk()).kernel;
    ASSERT_TRUE(other);
    EXPECT_NE(other->function, first->function);
}

TEST_F(jit, launches_what_it_loaded) {
    const auto kernel = load(scaling_kernel("7"), without_disk()).kernel;
    ASSERT_TRUE(kernel);
    gpu::allow_shared_bytes(kernel->function, 100 << 10);
    fake_cuda::take_events();
    float *data = nullptr;
    void *arguments[] = {&data, &data};
    cudaLaunchKernel(kernel->function, 3, 128, arguments, 100 << 10, nullptr);
    const auto events = fake_cuda::take_events();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kernel, "scale_all");
    EXPECT_EQ(events[0].grid[0], 3U);
}

TEST_F(jit, compiles_once_what_threads_ask_for_together) {
    const size_t before = fake_cuda::loaded_libraries();
    std::vector<std::shared_ptr<const gpu::jit::compiled_kernel>> found(8);
    std::vector<std::thread> threads;
    for (auto &each : found)
        threads.emplace_back([&each] {
            each = load(scaling_kernel("11"), without_disk()).kernel;
        });
    for (std::thread &each : threads)
        each.join();
    ASSERT_TRUE(found[0]);
    for (const auto &each : found)
        EXPECT_EQ(each, found[0]);
    EXPECT_EQ(fake_cuda::loaded_libraries(), before + 1);
}

TEST_F(jit, compiles_different_kernels_side_by_side) {
    const size_t before = fake_cuda::loaded_libraries();
    std::atomic<int> made {0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&made, i] {
            if (load(scaling_kernel(text(100 + i)), without_disk()).kernel)
                ++made;
        });
    for (std::thread &each : threads)
        each.join();
    EXPECT_EQ(made, 4);
    EXPECT_EQ(fake_cuda::loaded_libraries(), before + 4);
}

TEST_F(jit, remembers_what_does_not_compile_and_says_why) {
    const kept_log log;
    const kernel_request broken = scaling_kernel("no_such_number");
    const std::string refusal = load(broken, without_disk()).refusal;
    for (const char *part : {"does not compile specification.hpp for sm_90",
                 "identifier", "no_such_number", "undefined"})
        EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
    EXPECT_EQ(load(broken, without_disk()).refusal, refusal);
    EXPECT_EQ(log.count("gradnn,kernel,"), 1U) << log.lines();
    EXPECT_EQ(log.count("does not compile"), 1U) << log.lines();
}

TEST_F(jit, refuses_an_entry_that_the_code_does_not_have) {
    kernel_request request = scaling_kernel("12");
    request.entry = "scale_none";
    const auto found = load(request, without_disk());
    EXPECT_FALSE(found.kernel);
    EXPECT_NE(found.refusal.find("cudaLibraryGetKernel"), std::string::npos)
            << found.refusal;
}

TEST_F(jit, throws_for_a_source_that_is_not_embedded) {
    EXPECT_THROW(load({"gpu/jit/nothing.cuh", "", "nothing"}, without_disk()),
            error);
}

TEST_F(jit, does_not_disturb_a_capture_of_another_thread) {
    fake_cuda::set_capture_elsewhere(true);
    const auto made = load(scaling_kernel("13"), without_disk());
    const auto found = load(scaling_kernel("13"), without_disk());
    fake_cuda::set_capture_elsewhere(false);
    EXPECT_TRUE(made.kernel) << made.refusal;
    EXPECT_EQ(found.kernel, made.kernel);
}

TEST_F(jit, takes_a_kernel_from_the_disk_in_the_next_process) {
    const fs::path folder
            = fs::temp_directory_path() / text("gradnn_jit_test_", ::getpid());
    detail::compile_options options;
    options.kernel_cache = folder.string();
    const kept_log log;
    const auto made = load(scaling_kernel("14"), options).kernel;
    gpu::jit::forget_kernels();
    const auto read = load(scaling_kernel("14"), options).kernel;
    fs::remove_all(folder);
    ASSERT_TRUE(made && read);
    EXPECT_TRUE(made->backend.starts_with("CUDA (compiled by NVRTC "))
            << made->backend;
    EXPECT_TRUE(read->backend.starts_with("CUDA (from the disk in "))
            << read->backend;
    EXPECT_EQ(read->attributes.numRegs, made->attributes.numRegs);
    EXPECT_EQ(log.count("from the disk"), 1U) << log.lines();
}

TEST_F(jit, writes_sources_and_code_for_people) {
    const fs::path folder
            = fs::temp_directory_path() / text("gradnn_jit_dump_", ::getpid());
    setenv("GRADNN_DUMP_KERNELS", folder.c_str(), 1);
    const auto made = load(scaling_kernel("15"), without_disk());
    unsetenv("GRADNN_DUMP_KERNELS");
    ASSERT_TRUE(made.kernel) << made.refusal;
    std::vector<fs::path> of_kernels;
    for (const auto &each : fs::directory_iterator(folder))
        of_kernels.push_back(each.path());
    ASSERT_EQ(of_kernels.size(), 1U);
    std::ostringstream specification;
    specification << std::ifstream(of_kernels[0] / "specification.hpp").rdbuf();
    EXPECT_EQ(specification.str(), scaling_kernel("15").specification);
    for (const char *file : {"gpu/device/elements.cuh",
                 "gpu/device/instructions.cuh", "key.txt"})
        EXPECT_TRUE(fs::exists(of_kernels[0] / file)) << file;
    EXPECT_GT(fs::file_size(of_kernels[0] / "kernel.cubin"), 1000U);
    fs::remove_all(folder);
}

} // namespace
} // namespace gradnn::test
