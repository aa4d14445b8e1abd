// gradnn kernels: the lists, and what each kernel says of a graph.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "compile/kernel_choice.hpp"
#include "support/driver_program.hpp"

namespace {

using namespace gradnn::test;

/// The line that begins so, or "".
std::string line_of(const std::string &text, const std::string &beginning) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.find(beginning) != std::string::npos) return line;
    return {};
}

TEST_F(driver, kernels_lists_every_row_with_what_it_takes) {
    const outcome result = gradnn("kernels");
    ASSERT_EQ(result.status, 0) << result.err;
    for (const auto kind :
            {gradnn::engine::kind::cpu, gradnn::engine::kind::gpu})
        for (const auto &row : gradnn::detail::kernel_rows(kind)) {
            const std::string line
                    = line_of(result.out, std::string(" ") + row.name + " ");
            EXPECT_NE(line.find(row.takes), std::string::npos) << row.name;
        }
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), 120U) << line;
}

TEST_F(driver, kernels_of_a_graph_say_which_is_taken_and_why_not) {
    const outcome result
            = gradnn("kernels " + graphs + "conv_backward.json --engine cpu");
    ASSERT_EQ(result.status, 0) << result.err;
    for (const char *output : {"diff_src:", "diff_weights:", "diff_bias:"})
        EXPECT_NE(result.out.find(output), std::string::npos) << result.out;
    // One row is taken for each of the three outputs.
    size_t taken = 0;
    for (size_t at = result.out.find(" taken "); at != std::string::npos;
            at = result.out.find(" taken ", at + 1))
        ++taken;
    EXPECT_EQ(taken, 3U) << result.out;
    // A kernel for groups of one channel says what it was given.
    const std::string refusal = line_of(result.out, "convolution.depthwise");
    EXPECT_NE(refusal.find("cannot"), std::string::npos) << refusal;
    // The GEMM takes everything.
    EXPECT_EQ(line_of(result.out, "convolution.gemm").find("cannot"),
            std::string::npos)
            << result.out;
}

TEST_F(driver, kernels_of_a_missing_file_names_it) {
    expect_refusal("kernels no_such.json", {"no_such.json"});
}

} // namespace
