// The file that keeps cuDNN's plans. Needs no GPU.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/cudnn_plan_cache.hpp"
#include "support/expect_error.hpp"

namespace gradnn::test {
namespace {

class plan_cache_file : public testing::Test {
protected:
    void SetUp() override {
        const auto *test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::temp_directory_path()
                / ("gradnn_plans_" + std::to_string(::getpid()) + test->name());
        std::filesystem::create_directory(folder_);
        name(folder_ / "plans");
    }
    void TearDown() override {
        ::unsetenv("GRADNN_CUDNN_PLAN_CACHE");
        std::filesystem::remove_all(folder_);
    }

    void name(const std::filesystem::path &file) {
        file_ = file;
        ::setenv("GRADNN_CUDNN_PLAN_CACHE", file.c_str(), 1);
    }
    void write(const std::string &text) const { std::ofstream(file_) << text; }
    std::string read() const {
        std::ostringstream text;
        text << std::ifstream(file_).rdbuf();
        return text.str();
    }

    std::filesystem::path folder_;
    std::filesystem::path file_;
};

TEST_F(plan_cache_file, keeps_what_others_added) {
    write("gradnn cuDNN plans 1\ntheirs\tkernel 1\n");
    gpu::keep_in_plan_cache("ours", "kernel 2");
    EXPECT_EQ(read(),
            "gradnn cuDNN plans 1\nours\tkernel 2\ntheirs\tkernel 1\n");
}

TEST_F(plan_cache_file, is_read_when_it_is_named) {
    write("gradnn cuDNN plans 1\nread from a file\tkernel 3\n");
    EXPECT_EQ(gpu::find_in_plan_cache("read from a file"), "kernel 3");
    EXPECT_FALSE(gpu::find_in_plan_cache("in no file"));
}

// A team shares it.
TEST_F(plan_cache_file, has_the_mode_of_any_new_file) {
    gpu::keep_in_plan_cache("some", "kernel 4");
    const mode_t mask = ::umask(0);
    ::umask(mask);
    struct stat made {};
    ASSERT_EQ(::stat(file_.c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 0777, 0666 & ~mask);
}

TEST_F(plan_cache_file, that_cannot_be_used_is_named) {
    write("something else\n");
    expect_error({"not a cache", [] { gpu::keep_in_plan_cache("any", "k 5"); },
            status::invalid_arguments,
            {"GRADNN_CUDNN_PLAN_CACHE", file_.string(), "line 1"}});
    name(folder_ / "absent" / "plans");
    expect_error({"no folder", [] { gpu::keep_in_plan_cache("any", "k 6"); },
            status::runtime_error,
            {"GRADNN_CUDNN_PLAN_CACHE", file_.string(), "cannot be written"}});
}

} // namespace
} // namespace gradnn::test
