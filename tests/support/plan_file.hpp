// A plan cache file, and partitions compiled with it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <gradnn/graph.hpp>

#include "support/op_runner.hpp"

namespace gradnn::test {

/// In a folder of its own, which goes with it.
class plan_file {
public:
    plan_file()
        : folder_(std::filesystem::temp_directory_path()
                / ("gradnn_plan_file_" + std::to_string(::getpid()) + '_'
                        + testing::UnitTest::GetInstance()
                                  ->current_test_info()
                                  ->name())) {
        std::filesystem::create_directory(folder_);
    }
    plan_file(const plan_file &) = delete;
    plan_file &operator=(const plan_file &) = delete;
    ~plan_file() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    std::string path() const { return (folder_ / "plans").string(); }

    /// Lines after the first: a problem, a tab, a kernel.
    std::vector<std::string> lines() const {
        std::ifstream file(path());
        std::vector<std::string> all;
        std::string line;
        std::getline(file, line);
        while (std::getline(file, line))
            all.push_back(line);
        return all;
    }

    void write(const std::vector<std::string> &lines) const {
        std::ofstream file(path());
        file << "gradnn plans 1\n";
        for (const std::string &line : lines)
            file << line << '\n';
    }

private:
    std::filesystem::path folder_;
};

/// Without a graph.
inline compiled_partition compile_with(
        const op &the_op, const compile_settings &settings, const engine &e) {
    return partition(the_op, e.get_kind(), settings)
            .compile(present(the_op.get_inputs()),
                    present(the_op.get_outputs()), e);
}

} // namespace gradnn::test
