// The folder that keeps machine code of kernels (src/gpu/jit/disk_cache): what it gives
// back, and what it does not where files are damaged, foreign or cannot be written.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>

#include "base/text.hpp"
#include "gpu/jit/disk_cache.hpp"

namespace gradnn::test {
namespace {

namespace fs = std::filesystem;
using detail::text;
using gpu::jit::read_cached;
using gpu::jit::write_cached;

class jit_cache : public testing::Test {
protected:
    void SetUp() override {
        // Of each test another: the log says once what is wrong with a file.
        root_ = fs::temp_directory_path()
                / text("gradnn_cache_", ::getpid(), '_',
                        testing::UnitTest::GetInstance()
                                ->current_test_info()
                                ->name());
        fs::remove_all(root_);
        folder_ = (root_ / "gradnn" / "kernels").string();
        set_verbose(1);
        set_log_callback(
                [](const char *line, void *to) {
                    *static_cast<std::string *>(to) += std::string(line) + '\n';
                },
                &log_);
    }
    void TearDown() override {
        set_log_callback(nullptr, nullptr);
        set_verbose(0);
        fs::remove_all(root_);
    }

    std::vector<fs::path> files() const {
        std::vector<fs::path> found;
        for (const auto &each : fs::directory_iterator(folder_))
            found.push_back(each.path());
        return found;
    }
    /// The only file.
    fs::path file() const {
        EXPECT_EQ(files().size(), 1U);
        return files().front();
    }
    /// Keeps a code, damages its file, and expects that it is not given back and
    /// that the log says so, once.
    void expect_refused(const std::function<void(const fs::path &)> &damage,
            const std::string &reason) {
        write_cached(folder_, "key", code);
        ASSERT_EQ(read_cached(folder_, "key"), code);
        damage(file());
        EXPECT_FALSE(read_cached(folder_, "key"));
        EXPECT_FALSE(read_cached(folder_, "key"));
        const size_t said = log_.find(reason);
        EXPECT_NE(said, std::string::npos) << log_;
        EXPECT_EQ(log_.find(reason, said + 1), std::string::npos) << log_;
    }

    const std::string code = text(
            std::string_view("\177ELF\0 code\n", 11), std::string(3000, 'x'));
    fs::path root_;
    std::string folder_;
    std::string log_;
};

TEST_F(jit_cache, gives_back_what_was_kept_under_a_key) {
    EXPECT_FALSE(read_cached(folder_, "key"));
    write_cached(folder_, "key", code);
    write_cached(folder_, "other\nkey", "other code");
    EXPECT_EQ(read_cached(folder_, "key"), code);
    EXPECT_EQ(read_cached(folder_, "other\nkey"), "other code");
    EXPECT_FALSE(read_cached(folder_, "third key"));
    write_cached(folder_, "key", "newer code");
    EXPECT_EQ(read_cached(folder_, "key"), "newer code");
    EXPECT_EQ(log_, "");
}

TEST_F(jit_cache, is_of_the_user_alone) {
    const mode_t mask = ::umask(0);
    write_cached(folder_, "key", code);
    ::umask(mask);
    struct stat found {};
    ASSERT_EQ(::stat(folder_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700U);
    ASSERT_EQ(::stat(file().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(jit_cache, keeps_nothing_without_a_folder) {
    write_cached("", "key", code);
    EXPECT_FALSE(read_cached("", "key"));
    EXPECT_EQ(log_, "");
}

TEST_F(jit_cache, refuses_a_file_that_is_cut_off) {
    for (const size_t bytes :
            {size_t {0}, size_t {5}, size_t {40}, code.size()}) {
        log_.clear();
        write_cached(folder_, "key", code);
        fs::resize_file(file(), bytes);
        EXPECT_FALSE(read_cached(folder_, "key")) << bytes;
    }
    write_cached(folder_, "key", code);
    EXPECT_EQ(read_cached(folder_, "key"), code);
}

TEST_F(jit_cache, refuses_a_file_of_which_a_byte_is_another) {
    expect_refused(
            [](const fs::path &path) {
                std::fstream file(
                        path, std::ios::in | std::ios::out | std::ios::binary);
                file.seekp(-100, std::ios::end);
                file.put('y');
            },
            "damaged or of another kernel");
}

TEST_F(jit_cache, refuses_a_file_of_another_key_or_format) {
    write_cached(folder_, "another key", code);
    const fs::path other = file();
    const std::string kept = root_ / "kept";
    fs::rename(other, kept);
    expect_refused(
            [&](const fs::path &path) {
                fs::copy_file(kept, path, fs::copy_options::overwrite_existing);
            },
            "damaged or of another kernel");
    write_cached(folder_, "key", code);
    std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary)
            << "gradnn kernel 0\n";
    EXPECT_FALSE(read_cached(folder_, "key"));
}

TEST_F(jit_cache, refuses_a_file_that_others_may_write) {
    expect_refused([](const fs::path &path) { ::chmod(path.c_str(), 0620); },
            "may be written by other users");
}

TEST_F(jit_cache, refuses_a_link) {
    expect_refused(
            [&](const fs::path &path) {
                fs::rename(path, root_ / "elsewhere");
                fs::create_symlink(root_ / "elsewhere", path);
            },
            "Too many levels of symbolic links");
}

TEST_F(jit_cache, refuses_a_file_of_another_user) {
    if (::geteuid() != 0) GTEST_SKIP() << "root alone can give a file away";
    expect_refused(
            [](const fs::path &path) {
                ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
            },
            "belongs to another user");
}

TEST_F(jit_cache, refuses_a_folder_that_others_may_write) {
    expect_refused([&](const fs::path &) { ::chmod(folder_.c_str(), 0777); },
            "may be written by other users");
    write_cached(folder_, "second key", code);
    EXPECT_EQ(files().size(), 1U);
}

TEST_F(jit_cache, goes_without_a_folder_that_cannot_be_made) {
    fs::create_directories(root_);
    std::ofstream(root_ / "gradnn") << "a file in the folder's place";
    write_cached(folder_, "key", code);
    EXPECT_FALSE(read_cached(folder_, "key"));
    EXPECT_NE(log_.find("gradnn,kernel:cache,"), std::string::npos) << log_;
    log_.clear();
    write_cached("/proc/gradnn/kernels", "key", code); // read-only for all
    EXPECT_FALSE(read_cached("/proc/gradnn/kernels", "key"));
    EXPECT_NE(log_.find("/proc/gradnn/kernels is not used: No such file"),
            std::string::npos)
            << log_;
}

// As on a full disk: the file does not grow beyond 1000 bytes.
TEST_F(jit_cache, goes_without_a_file_that_cannot_be_written) {
    write_cached(folder_, "key", "short");
    rlimit before {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit less {1000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
    write_cached(folder_, "key", code);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_NE(log_.find("cannot be written"), std::string::npos) << log_;
    EXPECT_EQ(read_cached(folder_, "key"), "short");
    EXPECT_EQ(files().size(), 1U);
}

TEST_F(jit_cache, deletes_what_was_used_least_recently) {
    const auto key = [](int number) { return text("key ", number); };
    for (int number = 0; number < 40; ++number) {
        write_cached(folder_, key(number), code);
        // Older than the clock resolves; the first one was used just now.
        if (number == 0) continue;
        for (const fs::path &path : files()) {
            if (fs::last_write_time(path)
                    > fs::file_time_type::clock::now() - std::chrono::hours(1))
                fs::last_write_time(path,
                        fs::file_time_type::clock::now()
                                - std::chrono::hours(100 - number));
        }
    }
    EXPECT_EQ(read_cached(folder_, key(1)), code); // and so is used now
    write_cached(folder_ + "/../kernels", key(40), code, 60000);
    size_t bytes = 0;
    for (const fs::path &path : files())
        bytes += fs::file_size(path);
    EXPECT_LE(bytes, 60000U);
    EXPECT_GT(bytes, 30000U);
    EXPECT_EQ(read_cached(folder_, key(40)), code);
    EXPECT_EQ(read_cached(folder_, key(1)), code);
    EXPECT_EQ(read_cached(folder_, key(39)), code);
    EXPECT_FALSE(read_cached(folder_, key(2)));
}

// Each process writes other code under the same key: a reader sees one of them.
TEST_F(jit_cache, is_shared_by_processes) {
    const auto code_of = [&](int number) {
        return text(number, std::string(200000 + 1000 * number, 'c'));
    };
    std::vector<pid_t> processes;
    for (int number = 0; number < 4; ++number) {
        const pid_t process = ::fork();
        if (process != 0) {
            processes.push_back(process);
            continue;
        }
        int status = 0;
        for (int round = 0; round < 50; ++round) {
            write_cached(folder_, "key", code_of(number));
            const auto read = read_cached(folder_, "key");
            bool whole = false;
            for (int writer = 0; writer < 4; ++writer)
                whole = whole || read == code_of(writer);
            if (!whole) status = 1;
        }
        ::_exit(status);
    }
    for (const pid_t process : processes) {
        int status = 0;
        ::waitpid(process, &status, 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(files().size(), 1U);
}

} // namespace
} // namespace gradnn::test
