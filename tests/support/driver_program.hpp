// The gradnn program as its tests run it, and graphs as text.
#pragma once

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace gradnn::test {

namespace fs = std::filesystem;

inline const std::string graphs = EXAMPLES_DIR "/graphs/";

struct outcome {
    int status = -1;
    std::string out;
    std::string err;
    double seconds = 0; ///< on the clock
    double cpu_seconds = 0; ///< of the program
};

inline double seconds_of_children() {
    rusage usage {};
    getrusage(RUSAGE_CHILDREN, &usage);
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec)
                + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline std::string contents(const fs::path &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// A folder of its own for each test, removed with it.
class driver : public testing::Test {
protected:
    driver() {
        std::string name = "gradnn_driver_";
        name += testing::UnitTest::GetInstance()->current_test_info()->name();
        for (char &letter : name)
            if (letter == '/') letter = '_';
        // Tests of other programs may have the same name.
        name += '_' + std::to_string(getpid());
        folder_ = fs::path(testing::TempDir()) / name;
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    ~driver() override { fs::remove_all(folder_); }

    std::string path(const std::string &name) const {
        return (folder_ / name).string();
    }

    std::string write(const std::string &name, const std::string &text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }

    /// Runs the program through the shell.
    outcome gradnn(const std::string &arguments,
            const std::string &before = "") const {
        const std::string command = before + " '" DRIVER_PATH "' " + arguments
                + " >'" + path("stdout.txt") + "' 2>'" + path("stderr.txt")
                + "'";
        const double cpu_before = seconds_of_children();
        const auto begin = std::chrono::steady_clock::now();
        const int status = std::system(command.c_str());
        const std::chrono::duration<double> time
                = std::chrono::steady_clock::now() - begin;
        outcome result;
        result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        result.out = contents(path("stdout.txt"));
        result.err = contents(path("stderr.txt"));
        result.seconds = time.count();
        result.cpu_seconds = seconds_of_children() - cpu_before;
        fs::remove(path("stdout.txt"));
        fs::remove(path("stderr.txt"));
        return result;
    }

    /// Status 2, nothing on stdout, one line on stderr that holds all pieces,
    /// within a second (more under sanitizers), and no new file.
    void expect_refusal(const std::string &arguments,
            const std::vector<std::string> &pieces,
            const std::string &before = "") const {
        const size_t files_before = file_count();
        const outcome result = gradnn(arguments, before);
        EXPECT_EQ(result.status, 2) << arguments;
        EXPECT_EQ(result.out, "") << arguments;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
                << result.err;
        for (const std::string &piece : pieces)
            EXPECT_NE(result.err.find(piece), std::string::npos)
                    << "expected: " << piece << "\ngiven: " << result.err;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        EXPECT_LT(result.seconds, 20) << arguments;
#else
        // The clock also runs for what else a busy machine does.
        EXPECT_LT(result.cpu_seconds, 1) << arguments;
        EXPECT_LT(result.seconds, 10) << arguments;
#endif
        EXPECT_EQ(file_count(), files_before) << arguments;
    }

    size_t file_count() const {
        return static_cast<size_t>(std::distance(
                fs::directory_iterator(folder_), fs::directory_iterator()));
    }

private:
    fs::path folder_;
};

/// A graph of one op as text. The pieces can be anything.
inline std::string graph_of(const std::string &kind, const std::string &attrs,
        const std::string &inputs, const std::string &outputs) {
    return "{\"graph\": [{\"id\": 0, \"name\": \"it\", \"kind\": \"" + kind
            + "\", \"attrs\": {" + attrs + "}, \"inputs\": [" + inputs
            + "], \"outputs\": [" + outputs + "]}]}";
}

inline std::string tensor_of(int id, const std::string &shape,
        const std::string &dtype = "f32", const std::string &rest = "") {
    return "{\"id\": " + std::to_string(id) + ", \"dtype\": \"" + dtype
            + "\", \"shape\": " + shape + rest + "}";
}

inline std::string string_attr(
        const std::string &name, const std::string &value) {
    return "\"" + name + "\": {\"type\": \"string\", \"value\": \"" + value
            + "\"}";
}

inline std::string list_attr(const std::string &name, const std::string &value,
        const std::string &type = "s64[]") {
    return "\"" + name + "\": {\"type\": \"" + type + "\", \"value\": " + value
            + "}";
}

} // namespace gradnn::test
