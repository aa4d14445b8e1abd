// gradnn support: the overview, the variants of one op, and the same as JSON.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "driver/support_table.hpp"
#include "op/op_schema.hpp"
#include "support/driver_program.hpp"

namespace {

using namespace gradnn::test;
using gradnn::driver::merged_rows;
using gradnn::driver::support_mark;
using json = nlohmann::ordered_json;

int64_t lines(const std::string &text) {
    return std::count(text.begin(), text.end(), '\n');
}

TEST_F(driver, support_fits_on_a_screen) {
    const outcome result = gradnn("support");
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_LE(lines(result.out), 24) << result.out;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);)
        EXPECT_LE(line.size(), 120U) << line;
    for (const auto &schema : gradnn::detail::all_schemas())
        EXPECT_NE(result.out.find("\n" + std::string(schema.name) + " "),
                std::string::npos)
                << result.out;
    EXPECT_NE(result.out.find("cpu f32"), std::string::npos) << result.out;
}

TEST_F(driver, support_of_one_op_lists_its_variants) {
    const outcome weights = gradnn("support ConvolutionBackwardWeights");
    ASSERT_EQ(weights.status, 0) << weights.err;
    EXPECT_NE(weights.out.find("ConvolutionBackwardWeights on cpu"),
            std::string::npos)
            << weights.out;
    EXPECT_NE(
            weights.out.find("diff_weights, diff_bias f32"), std::string::npos)
            << weights.out;
    EXPECT_EQ(weights.out.find("ReLUBackward"), std::string::npos);

    // All modes run alike on the CPU, so they share a row.
    const outcome interpolation = gradnn("support InterpolateBackward");
    ASSERT_EQ(interpolation.status, 0) << interpolation.err;
    EXPECT_NE(interpolation.out.find("linear, bilinear, trilinear"),
            std::string::npos)
            << interpolation.out;
    EXPECT_LE(lines(interpolation.out), 24) << interpolation.out;
}

TEST_F(driver, support_of_an_unknown_op_is_refused) {
    expect_refusal("support ConvBackwrd",
            {"\"ConvBackwrd\"", "did you mean ConvBackward?"});
    expect_refusal(
            "support Softmax", {"unknown op \"Softmax\" (", "lists all"});
    expect_refusal("support Add Add", {"support: unexpected argument Add"});
}

TEST_F(driver, support_of_one_op_is_json_too) {
    const outcome one = gradnn("support Add --json");
    ASSERT_EQ(one.status, 0) << one.err;
    const auto engines = json::parse(one.out).at("engines");
    ASSERT_EQ(engines.size(), 2U);
    for (const auto &row : engines[0].at("ops"))
        EXPECT_EQ(row.at("op"), "Add");
    EXPECT_FALSE(engines[0].contains("interpolation"));
}

TEST(support_table, marks_what_runs) {
    const auto row = [](bool supported) {
        return json {{"f32", {{"supported", supported}}}};
    };
    EXPECT_EQ(support_mark({row(true), row(true)}, "f32"), "yes");
    EXPECT_EQ(support_mark({row(true), row(false)}, "f32"), "part");
    EXPECT_EQ(support_mark({row(false)}, "f32"), "-");
}

TEST(support_table, merges_rows_of_equal_answers) {
    const auto row = [](const char *mode, const char *layout, bool supported) {
        json answer = {{"supported", supported}};
        if (!supported) answer["reason"] = "no";
        return json {{"mode", mode}, {"layout", layout}, {"f32", answer}};
    };
    const json merged = merged_rows({row("nearest", "NCX", true),
            row("nearest", "NXC", false), row("linear", "NCX", true),
            row("linear", "NXC", true), row("bilinear", "NCX", true),
            row("bilinear", "NXC", true)});
    EXPECT_EQ(merged,
            json({row("nearest, linear, bilinear", "NCX", true),
                    row("nearest", "NXC", false),
                    row("linear, bilinear", "NXC", true)}));
    EXPECT_EQ(merged_rows(json::array()), json::array());
}

} // namespace
