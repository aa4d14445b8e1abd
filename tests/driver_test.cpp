// The gradnn program from the outside: exit status, what it prints where, the
// files it leaves.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include <gradnn/op.hpp>

#include "files/npy.hpp"
#include "files/tensor_data.hpp"
#include "op/op_schema.hpp"
#include "support/driver_program.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::test;
using data_type = logical_tensor::data_type;
using dims = std::vector<int64_t>;

const std::string captured = DATA_DIR "/segmentation_step/";

const std::string up_by_2
        = string_attr("mode", "linear") + ", " + list_attr("sizes", "[6, 8]");

TEST_F(driver, help_everywhere) {
    for (const char *command : {"", "run", "check", "bench", "info", "support"})
        for (const char *flag : {"--help", "-h"}) {
            const outcome result = gradnn(std::string(command) + " " + flag);
            EXPECT_EQ(result.status, 0);
            EXPECT_NE(result.out.find("Usage: gradnn"), std::string::npos)
                    << result.out;
            EXPECT_EQ(result.err, "");
        }
}

TEST_F(driver, version) {
    const outcome result = gradnn("--version");
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '.'), 2);
}

class driver_examples : public driver,
                        public testing::WithParamInterface<const char *> {};

class driver_onednn_files : public driver,
                            public testing::WithParamInterface<const char *> {};

TEST_P(driver_examples, pass_the_check) {
    const outcome result = gradnn("check " + graphs + GetParam() + ".json");
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_NE(result.out.find("ok"), std::string::npos);
    EXPECT_EQ(result.out.find("WRONG"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(all, driver_examples,
        testing::Values("segmentation_step", "interpolate_backward",
                "interpolate_backward_3d", "conv_backward",
                "conv_transpose_backward", "onednn_style", "two_ops"),
        [](const auto &each) { return std::string(each.param); });

// Files as oneDNN's tools write them: channels last by strides, "None",
// output_padding of twelve zeros, shapes of twelve zeros for none, pads_end of
// -1, booleans of 0, names of before oneDNN Graph 3.
TEST_P(driver_onednn_files, run_as_they_are) {
    const outcome result = gradnn("check " DATA_DIR "/onednn_style/"
            + std::string(GetParam()) + ".json");
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_NE(result.out.find("ok"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(all, driver_onednn_files,
        testing::Values("bias_old_name", "conv_data",
                "conv_data_3d_channels_last", "conv_data_old_names",
                "conv_transpose_data", "conv_transpose_data_3d_depthwise",
                "conv_transpose_weights", "conv_weights",
                "conv_weights_1d_groups", "foreign_ops",
                "interpolate_1d_permuted", "interpolate_nearest",
                "interpolate_scales", "relu"),
        [](const auto &each) { return std::string(each.param); });

/// The options that give the captured step its tensors.
std::string captured_inputs() {
    std::string text;
    for (const auto &[id, name] :
            std::vector<std::pair<int, const char *>> {{1, "upsample_diff_dst"},
                    {3, "classifier_src"}, {4, "classifier_weights"},
                    {9, "conv3x3_src"}, {10, "conv3x3_weights"}})
        text += " --input " + std::to_string(id) + "=" + captured + name
                + ".npy";
    return text;
}

TEST_F(driver, captured_step_is_as_pytorch_had_it) {
    std::string arguments
            = "check " + graphs + "segmentation_step.json" + captured_inputs();
    for (const auto &[id, name] : std::vector<std::pair<int, const char *>> {
                 {2, "upsample_diff_src"}, {5, "classifier_diff_src"},
                 {6, "classifier_diff_weights"}, {7, "classifier_diff_bias"},
                 {8, "conv3x3_diff_dst"}, {11, "conv3x3_diff_src"},
                 {12, "conv3x3_diff_weights"}, {13, "conv3x3_diff_bias"}})
        arguments += " --expect " + std::to_string(id) + "=" + captured + name
                + ".npy";
    const outcome result = gradnn(arguments);
    EXPECT_EQ(result.status, 0) << result.out << result.err;

    // Another answer is noticed.
    std::string wrong = arguments;
    const std::string name = "upsample_diff_src.npy";
    wrong.replace(wrong.find(name), name.size(), "classifier_diff_dst.npy");
    EXPECT_EQ(gradnn(wrong).status, 0); // the same tensor under another name
    std::vector<double> values
            = detail::read_npy(captured + "upsample_diff_src.npy");
    values[17] *= 1.01;
    detail::write_npy(
            path("off.npy"), data_type::f32, dims {1, 6, 17, 25}, values);
    const outcome failed = gradnn("check " + graphs + "segmentation_step.json"
            + captured_inputs() + " --expect 2=" + path("off.npy"));
    EXPECT_EQ(failed.status, 1);
    EXPECT_NE(failed.out.find("NOT AS EXPECTED"), std::string::npos);
}

TEST_F(driver, outputs_hold_the_results) {
    // An intermediate tensor and a final one.
    const std::string arguments = "run " + graphs + "segmentation_step.json"
            + captured_inputs() + " --output 2=" + path("up.npy")
            + " --output 13=" + path("bias.npy");
    const outcome result = gradnn(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("ConvBackward"), std::string::npos);
    dims shape;
    const auto up = detail::read_npy(path("up.npy"), &shape);
    EXPECT_EQ(shape, (dims {1, 6, 17, 25}));
    const auto wanted = detail::read_npy(captured + "upsample_diff_src.npy");
    for (size_t index = 0; index < up.size(); ++index)
        ASSERT_NEAR(up[index], wanted[index], 1e-4);
    EXPECT_EQ(detail::read_npy(path("bias.npy")).size(), 32U);
    EXPECT_EQ(file_count(), 2U); // no temporary file stays
}

TEST_F(driver, npy_round_trip_through_every_type) {
    // diff_src of a ReLU whose src is positive is diff_dst itself.
    const std::vector<double> values = {1, -2.5, 0.1, 1e-3, 1000, -7, 0.25, 3};
    const std::vector<double> ones(8, 1);
    for (const auto type :
            {data_type::f32, data_type::bf16, data_type::f16, data_type::f64}) {
        const std::string name = to_string(type);
        const std::string graph = write("relu.json",
                graph_of("ReLUBackward", "",
                        tensor_of(0, "[2, 4]", name) + ", "
                                + tensor_of(1, "[2, 4]", name,
                                        R"(, "stride": [1, 3])"),
                        tensor_of(2, "[2, 4]", name)));
        detail::write_npy(path("src.npy"), data_type::s32, dims {2, 4}, ones);
        detail::write_npy(path("in.npy"), data_type::f64, dims {2, 4}, values);
        const outcome result = gradnn("run " + graph + " --input 0="
                + path("src.npy") + " --input 1=" + path("in.npy")
                + " --output 2=" + path("out.npy"));
        ASSERT_EQ(result.status, 0) << result.err;
        const auto out = detail::read_npy(path("out.npy"));
        ASSERT_EQ(out.size(), values.size());
        for (size_t index = 0; index < out.size(); ++index)
            EXPECT_EQ(out[index], detail::rounded_to(type, values[index]))
                    << name;
    }
}

/// Without times, which differ.
std::string checksums(const std::string &out) {
    std::string result;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
        result += line.substr(line.find_last_of(' ') + 1) + "\n";
    return result;
}

TEST_F(driver, the_same_seed_gives_the_same_bits) {
    const std::string run = "run " + graphs + "segmentation_step.json ";
    const std::string first = checksums(gradnn(run + "--seed 5").out);
    EXPECT_EQ(checksums(gradnn(run + "--seed 5").out), first);
    EXPECT_EQ(checksums(gradnn(run + "--seed 5 --threads 1").out), first);
    EXPECT_EQ(checksums(gradnn(run + "--seed 5 --threads 5").out), first);
    EXPECT_NE(checksums(gradnn(run + "--seed 6").out), first);
}

/// The example of a convolution in little, with its fpmath_mode.
std::string small_convolution(const std::string &mode = "strict") {
    std::ifstream in(graphs + "conv_backward.json");
    std::string text(std::istreambuf_iterator<char>(in), {});
    const auto replace
            = [&](const std::string &before, const std::string &after) {
                  size_t at = text.find(before);
                  EXPECT_NE(at, std::string::npos) << before;
                  for (; at != std::string::npos; at = text.find(before, at))
                      text.replace(at, before.size(), after);
              };
    replace("[8, 28, 28, 128]", "[1, 5, 6, 128]");
    replace("[100352, 3584, 128, 1]", "[3840, 768, 128, 1]");
    if (mode != "strict") replace("\"strict\"", '"' + mode + '"');
    return text;
}

TEST_F(driver, nondeterministic_results_pass_the_check) {
    const outcome result = gradnn("check "
            + write("small.json", small_convolution()) + " --nondeterministic");
    EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(driver, check_names_a_relaxed_mode_and_what_it_allows) {
    const outcome relaxed = gradnn(
            "check --details " + write("tf32.json", small_convolution("tf32")));
    EXPECT_EQ(relaxed.status, 0) << relaxed.out << relaxed.err;
    EXPECT_NE(relaxed.out.find(", fpmath_mode tf32\n"), std::string::npos)
            << relaxed.out;
    EXPECT_NE(relaxed.out.find("Under fpmath_mode tf32"), std::string::npos);
    EXPECT_NE(relaxed.out.find(" 49152 "), std::string::npos);
    // diff_bias has no products.
    EXPECT_NE(relaxed.out.find(" 16384 "), std::string::npos);
    const outcome usual = gradnn(
            "check --details " + write("small.json", small_convolution()));
    EXPECT_EQ(usual.out.find("fpmath_mode"), std::string::npos) << usual.out;
    EXPECT_EQ(usual.out.find("49152"), std::string::npos);
}

TEST_F(driver, check_is_short_unless_details_are_asked_for) {
    const std::string check
            = "check " + write("small.json", small_convolution());
    const outcome plain = gradnn(check);
    EXPECT_EQ(plain.status, 0) << plain.out << plain.err;
    std::istringstream lines(plain.out);
    std::string title, header, word;
    std::getline(lines, title);
    std::getline(lines, header);
    std::istringstream words(header);
    std::vector<std::string> columns;
    while (words >> word)
        columns.push_back(word);
    EXPECT_EQ(columns,
            (std::vector<std::string> {"op", "output", "type", "kernel", "time",
                    "error", "result"}));
    EXPECT_EQ(std::count(plain.out.begin(), plain.out.end(), '\n'), 7);
    EXPECT_NE(plain.out.find("3 of 3 outputs are ok, with the same bits"),
            std::string::npos)
            << plain.out;
    const outcome details = gradnn(check + " --details");
    for (const char *column : {" backend ", " u*S ", " allowed "})
        EXPECT_NE(details.out.find(column), std::string::npos) << details.out;
}

TEST_F(driver, tensors_become_pictures) {
    const std::string run = "run " + graphs + "segmentation_step.json";
    const outcome result = gradnn(run + captured_inputs()
            + " --image 1=" + path("in.png") + " --image 2=" + path("out.png"));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("wrote " + path("out.png")), std::string::npos);
    for (const char *name : {"in.png", "out.png"}) {
        std::ifstream file(path(name), std::ios::binary);
        const std::string text(std::istreambuf_iterator<char>(file), {});
        EXPECT_EQ(text.substr(0, 8), "\x89PNG\r\n\x1a\n");
        EXPECT_EQ(text.substr(text.size() - 8), "IEND\xae\x42\x60\x82");
    }
    expect_refusal(run + " --image 77=" + path("a.png"),
            {"--image 77", "there is no tensor 77"});
    expect_refusal(run + " --image a.png", {"--image", "ID=FILE.png"});
    // The upsample takes src's shape and not its values.
    expect_refusal(run + " --image 0=" + path("a.png"),
            {"--image 0", "only the shape counts"});
    EXPECT_EQ(file_count(), 2U);
}

TEST_F(driver, shape_inputs_are_filled_by_themselves) {
    const std::string graph = write("sizes.json",
            graph_of("InterpolateBackward",
                    string_attr("mode", "nearest") + ", "
                            + string_attr("data_format", "NCX"),
                    tensor_of(0, "[1, 2, 3, 4]") + ", "
                            + tensor_of(1, "[1, 2, 5, 9]") + ", "
                            + tensor_of(3, "[2]", "s32"),
                    tensor_of(2, "[1, 2, 3, 4]")));
    EXPECT_EQ(gradnn("check " + graph).status, 0);
    detail::write_npy(path("wrong.npy"), data_type::s32, dims {2},
            std::vector<double> {5, 8});
    expect_refusal("run " + graph + " --input 3=" + path("wrong.npy"),
            {"sizes.json: graph[0]", "sizes"});
    detail::write_npy(path("half.npy"), data_type::f32, dims {2},
            std::vector<double> {5, 9.5});
    expect_refusal("run " + graph + " --input 3=" + path("half.npy"),
            {"half.npy", "9.5", "s32"});
}

TEST_F(driver, outputs_may_leave_shape_and_layout_open) {
    const std::string unknown = "-9223372036854775808";
    const std::string graph = write("open.json",
            graph_of("InterpolateBackward",
                    up_by_2 + ", " + string_attr("data_format", "NCX"),
                    tensor_of(0, "[1, 2, 3, 4]") + ", "
                            + tensor_of(1, "[1, 2, 6, 8]"),
                    tensor_of(2, "[" + unknown + "]", "f32",
                            R"(, "stride": [)" + unknown
                                    + R"(], "layout_type": "any")")));
    const outcome result
            = gradnn("run " + graph + " --output 2=" + path("o.npy"));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(detail::read_npy_header(path("o.npy")).dims, (dims {1, 2, 3, 4}));
    EXPECT_EQ(gradnn("check " + graph).status, 0);
}

TEST_F(driver, bench_writes_its_report) {
    const outcome result = gradnn("bench " + graphs
            + "interpolate_backward_3d.json " + graphs + "onednn_style.json "
            + graphs + "onednn_style.json --seconds 0.05 --json "
            + path("report.json"));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("InterpolateBackward"), std::string::npos);
    EXPECT_EQ(result.out.find("latency"), std::string::npos);
    const auto report = nlohmann::json::parse(contents(path("report.json")));
    EXPECT_TRUE(report.at("machine").is_object());
    EXPECT_GT(report.at("copy_gb_per_s").get<double>(), 0);
    ASSERT_EQ(report.at("results").size(), 3U);
    for (const auto &each : report.at("results")) {
        EXPECT_TRUE(each.at("graph").is_string());
        EXPECT_TRUE(each.at("partition").is_number());
        EXPECT_EQ(each.at("ops").size(), 1U);
        EXPECT_EQ(each.at("engine"), "cpu");
        EXPECT_TRUE(each.at("kernel").is_string());
        EXPECT_TRUE(each.at("backend").is_string());
        EXPECT_GT(each.at("time_ms").get<double>(), 0);
        EXPECT_LE(each.at("time_ms_min"), each.at("time_ms"));
        EXPECT_GE(each.at("time_ms_max"), each.at("time_ms"));
        EXPECT_GE(each.at("repeats").get<int>(), 3);
        const double rate = each.at("bytes").get<double>()
                / each.at("time_ms").get<double>() / 1e6;
        EXPECT_NEAR(each.at("gb_per_s").get<double>(), rate, 1e-6 * rate);
        const double share = rate / each.at("limit_gb_per_s").get<double>();
        EXPECT_NEAR(each.at("limit_share").get<double>(), share, 1e-6 * share);
        EXPECT_GE(each.at("tflop_per_s").get<double>(), 0);
        EXPECT_GT(each.at("compile_ms").get<double>(), 0);
        EXPECT_FALSE(each.contains("latency_us"));
    }
    EXPECT_EQ(report["results"][0]["compile_first"], true);
    EXPECT_EQ(report["results"][1]["compile_first"], true);
    EXPECT_EQ(report["results"][2]["compile_first"], false);
    // diff_dst and diff_src; src is not read.
    EXPECT_EQ(report["results"][0]["bytes"],
            2 * 32 * (11 * 19 * 20 + 6 * 10 * 10));
    EXPECT_EQ(report["results"][0]["flops"], 0);
    EXPECT_EQ(report["results"][1]["flops"], 2.0 * 14 * 14 * 128 * 32);
}

TEST_F(driver, bench_times_one_call_at_a_time) {
    const outcome result = gradnn("bench " + graphs
            + "interpolate_backward_3d.json --engine cpu --seconds 0.01 "
              "--latency --json "
            + path("report.json"));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("latency"), std::string::npos);
    const auto report = nlohmann::json::parse(contents(path("report.json")));
    const auto &only = report.at("results").at(0);
    EXPECT_GT(only.at("latency_us").get<double>(), 0);
    // A GPU's alone.
    EXPECT_FALSE(only.contains("replay_us"));
    EXPECT_FALSE(only.contains("launches"));
}

TEST_F(driver, info_and_support_are_json_too) {
    const outcome info = gradnn("info --json");
    ASSERT_EQ(info.status, 0);
    const auto machine = nlohmann::json::parse(info.out);
    EXPECT_EQ(machine.at("engines").at(0).at("kind"), "cpu");
    EXPECT_GE(machine.at("threads").get<int>(), 1);
    EXPECT_EQ(gradnn("info").status, 0);

    const outcome support = gradnn("support --json");
    ASSERT_EQ(support.status, 0);
    const auto cpu = nlohmann::json::parse(support.out).at("engines").at(0);
    EXPECT_EQ(cpu.at("engine"), "cpu");
    for (const auto &row : cpu.at("interpolation"))
        for (const char *type : {"f32", "bf16", "f16", "f64"})
            EXPECT_TRUE(row.at(type).at("supported").get<bool>()) << row;
    // 5 modes, 3 coordinate modes, 3 sources of the size, 2 layouts.
    EXPECT_EQ(cpu.at("interpolation").size(), 5U * 3 * 3 * 2);
    size_t kinds = 0;
    for (const auto &row : cpu.at("ops"))
        if (row.at("outputs") == "of the input's type") {
            ++kinds;
            for (const char *type : {"f32", "bf16", "f16", "f64"})
                EXPECT_TRUE(row.at(type).at("supported").get<bool>()) << row;
        }
    EXPECT_EQ(kinds, detail::all_schemas().size());
    EXPECT_EQ(gradnn("support").status, 0);
}

} // namespace
