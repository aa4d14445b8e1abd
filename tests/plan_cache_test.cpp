// The file that keeps what was measured.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/plan_cache.hpp"
#include "support/expect_error.hpp"

namespace gradnn::test {
namespace {

class plan_cache_file : public testing::Test {
protected:
    void SetUp() override {
        const auto *test
                = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::temp_directory_path()
                / ("gradnn_plans_" + std::to_string(::getpid()) + test->name());
        std::filesystem::create_directory(folder_);
        file_ = folder_ / "plans";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void keep(const std::string &problem, const std::string &kernel) const {
        detail::keep_in_plan_cache(problem, kernel, file_.string());
    }
    std::optional<std::string> find(const std::string &problem) const {
        return detail::find_in_plan_cache(problem, file_.string());
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
    write("gradnn plans 1\ntheirs\tkernel 1\n");
    keep("ours", "kernel 2");
    EXPECT_EQ(read(), "gradnn plans 1\nours\tkernel 2\ntheirs\tkernel 1\n");
}

TEST_F(plan_cache_file, is_read_when_it_is_named) {
    write("gradnn plans 1\nread from a file\tkernel 3\n");
    EXPECT_EQ(find("read from a file"), "kernel 3");
    EXPECT_FALSE(find("in no file"));
}

TEST_F(plan_cache_file, without_a_name_is_none) {
    detail::keep_in_plan_cache("of this process", "kernel 7", "");
    EXPECT_EQ(detail::find_in_plan_cache("of this process", ""), "kernel 7");
    EXPECT_FALSE(std::filesystem::exists(file_));
}

// A team shares it.
TEST_F(plan_cache_file, has_the_mode_of_any_new_file) {
    keep("some", "kernel 4");
    const mode_t mask = ::umask(0);
    ::umask(mask);
    struct stat made {};
    ASSERT_EQ(::stat(file_.c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 0777, 0666 & ~mask);
}

TEST_F(plan_cache_file, that_cannot_be_used_is_named) {
    write("something else\n");
    expect_error({"not a cache", [&] { keep("any", "k 5"); },
            status::invalid_arguments,
            {"GRADNN_PLAN_CACHE", file_.string(), "line 1"}});
    file_ = folder_ / "absent" / "plans";
    expect_error({"no folder", [&] { keep("any", "k 6"); },
            status::runtime_error,
            {"GRADNN_PLAN_CACHE", file_.string(), "cannot be written"}});
}

} // namespace
} // namespace gradnn::test
