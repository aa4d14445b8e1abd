// The graphs that fuzzing, users and reviews found to go wrong, on every
// engine: data/fuzz has a file for each, named after what was wrong.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner.hpp"
#include "support/engines.hpp"

namespace gradnn::fuzz {
namespace {

struct parameter {
    engine::kind kind;
    std::string name;
};

std::vector<parameter> parameters() {
    std::vector<parameter> all;
    for (const engine::kind kind : test::engine_kinds())
        for (const auto &file :
                std::filesystem::directory_iterator(DATA_DIR "/fuzz"))
            if (file.path().extension() == ".json")
                all.push_back({kind, file.path().stem().string()});
    std::sort(
            all.begin(), all.end(), [](const parameter &a, const parameter &b) {
                return std::pair(a.kind, a.name) < std::pair(b.kind, b.name);
            });
    return all;
}

class fuzz_cases : public testing::TestWithParam<parameter> {};

TEST_P(fuzz_cases, are_right) {
    problem made = from_json(DATA_DIR "/fuzz/" + GetParam().name + ".json");
    const engine e = test::shared_engine(GetParam().kind);
    // The forced kernel is that of the engine on which it was found.
    const std::string forced = made.kernel;
    made.kernel.clear();
    EXPECT_EQ(run_all(made, e), "");
    const auto names = test::kernel_names(
            GetParam().kind, forced.substr(0, forced.find('.')));
    if (std::find(names.begin(), names.end(), forced) == names.end()) return;
    made.kernel = forced;
    EXPECT_EQ(run_all(made, e), "") << forced;
}

INSTANTIATE_TEST_SUITE_P(files, fuzz_cases, testing::ValuesIn(parameters()),
        [](const auto &each) {
            return std::string(to_string(each.param.kind)) + "_"
                    + each.param.name;
        });

} // namespace
} // namespace gradnn::fuzz
