// What the gradnn program refuses: options, files and graphs that are wrong.
#include <gtest/gtest.h>

#include <string>

#include "files/npy.hpp"
#include "support/driver_program.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::test;
using data_type = logical_tensor::data_type;
using dims = std::vector<int64_t>;

std::string interpolation(const std::string &attrs) {
    return graph_of("InterpolateBackward",
            string_attr("data_format", "NCX") + ", " + attrs,
            tensor_of(0, "[1, 2, 3, 4]") + ", " + tensor_of(1, "[1, 2, 6, 8]"),
            tensor_of(2, "[1, 2, 3, 4]"));
}

std::string convolution(const std::string &strides,
        const std::string &dilations, const std::string &groups) {
    return graph_of("ConvolutionBackwardData",
            list_attr("strides", strides) + ", "
                    + list_attr("dilations", dilations) + ", "
                    + list_attr("pads_begin", "[0, 0]") + ", "
                    + list_attr("pads_end", "[0, 0]") + ", "
                    + list_attr("groups", groups, "s64") + ", "
                    + string_attr("data_format", "NCX") + ", "
                    + string_attr("weights_format", "OIX"),
            tensor_of(0, "[1, 8, 4, 4]") + ", " + tensor_of(1, "[8, 4, 3, 3]"),
            tensor_of(2, "[1, 4, 6, 6]"));
}

const std::string up_by_2
        = string_attr("mode", "linear") + ", " + list_attr("sizes", "[6, 8]");

TEST_F(driver, bad_usage) {
    const std::string graph = graphs + "interpolate_backward.json";
    expect_refusal("", {"subcommand", "support"});
    expect_refusal("fly", {"fly"});
    for (const char *command : {"run", "check", "bench"}) {
        const std::string start = std::string(command) + " ";
        expect_refusal(start, {"GRAPH.json"});
        expect_refusal(start + graph + " --frobnicate", {"--frobnicate"});
        expect_refusal(start + "--frobnicate", {"--frobnicate"});
        expect_refusal(start + graph + " --threads 0", {"--threads", "0"});
        expect_refusal(start + graph + " --threads x", {"--threads", "x"});
        expect_refusal(start + graph + " --engine tpu", {"--engine", "tpu"});
        expect_refusal(start + graph + " --engine gpu:x", {"gpu:x"});
        expect_refusal(start + graph + " --engine cpu:1", {"cpu:1"});
        expect_refusal(start + "/nonexistent.json",
                {"/nonexistent.json", "No such file"});
        expect_refusal(start + "/", {"not a regular file"});
    }
    expect_refusal("run " + graph + " extra", {"extra"});
    expect_refusal("run " + graph + " --seed x", {"--seed", "x"});
    expect_refusal("run " + graph + " --latency", {"--latency"});
    expect_refusal("check " + graph + " --latency", {"--latency"});
    expect_refusal("bench " + graph + " --latency=x", {"latency", "x"});
    expect_refusal("bench --latency", {"GRAPH.json"});
    for (const std::string value : {"x", "nan", "-1", "3601", "1s"})
        expect_refusal("bench " + graph + " --seconds " + value,
                {"--seconds", value, "0 to 3600"});
    expect_refusal("info --yaml", {"--yaml"});
    expect_refusal("support now", {"now"});
}

TEST_F(driver, an_engine_that_is_not_there) {
    const std::string graph = graphs + "interpolate_backward.json";
    expect_refusal("run " + graph + " --engine gpu:1000000",
            {"interpolate_backward.json", "--engine"});
    std::string text = contents(graph);
    text.replace(text.find("\"cpu\""), 5, "\"npu\"");
    expect_refusal("run " + write("npu.json", text),
            {"npu.json: engine_kind", "cpu, gpu, any"});
}

TEST_F(driver, bad_input_options) {
    const std::string run = "run " + graphs + "interpolate_backward.json ";
    detail::write_npy(path("small.npy"), data_type::f32, dims {2, 2},
            std::vector<double>(4));
    expect_refusal(run + "--input 1", {"--input", "ID=FILE"});
    expect_refusal(run + "--input =a.npy", {"--input", "ID=FILE"});
    expect_refusal(run + "--input 1=", {"--input", "ID=FILE"});
    expect_refusal(run + "--input -1=a.npy", {"-1"});
    expect_refusal(run + "--input 99999999999999999999=a.npy", {"ID=FILE"});
    expect_refusal(run + "--input 1=a.npy --input 1=b.npy",
            {"--input", "tensor 1", "twice"});
    expect_refusal(run + "--input 77=" + path("small.npy"),
            {"interpolate_backward.json", "no tensor 77"});
    expect_refusal(run + "--input 2=" + path("small.npy"),
            {"graph[0].outputs[0]", "tensor 2", "computed"});
    expect_refusal(run + "--input 1=" + path("none.npy"),
            {"none.npy", "No such file"});
    expect_refusal(run + "--input 1=" + path("small.npy"),
            {"small.npy", "[2, 2]", "graph[0].inputs[1].shape",
                    "[4, 64, 112, 112]"});
    write("corrupt.npy", "\x93NUMPY garbage");
    expect_refusal(run + "--input 1=" + path("corrupt.npy"),
            {"corrupt.npy", "version"});
    expect_refusal(run + "--output 0=" + path("o.npy"),
            {"graph[0].inputs[0]", "tensor 0"});
    expect_refusal(run + "--output 2=" + path("no/such/folder.npy"),
            {"folder.npy", "cannot be written"});
    expect_refusal(run + "--output 2=" + path("o.npy")
                    + " --output 2=" + path("p.npy"),
            {"--output", "twice"});
    expect_refusal("bench " + graphs + "interpolate_backward.json --json "
                    + path("no/report.json"),
            {"report.json", "cannot be written"});
    expect_refusal("check " + graphs + "interpolate_backward.json --expect 2="
                    + path("small.npy"),
            {"small.npy", "[2, 2]"});
}

TEST_F(driver, a_failure_leaves_no_output) {
    // Fails at execute, after the options were checked.
    const std::string graph = write("sizes.json",
            graph_of("InterpolateBackward",
                    string_attr("mode", "nearest") + ", "
                            + string_attr("data_format", "NCX"),
                    tensor_of(0, "[1, 2, 3, 4]") + ", "
                            + tensor_of(1, "[1, 2, 5, 9]") + ", "
                            + tensor_of(3, "[2]", "s32"),
                    tensor_of(2, "[1, 2, 3, 4]")));
    detail::write_npy(path("wrong.npy"), data_type::s32, dims {2},
            std::vector<double> {9, 9});
    write("kept.npy", "old");
    expect_refusal("run " + graph + " --input 3=" + path("wrong.npy")
                    + " --output 2=" + path("kept.npy"),
            {"sizes.json"});
    EXPECT_EQ(contents(path("kept.npy")), "old");
    expect_refusal("run " + graph + " --input 3=" + path("wrong.npy")
                    + " --output 2=" + path("new.npy"),
            {"sizes.json"});
}

struct bad_graph {
    std::string name;
    std::string text;
    std::vector<std::string> pieces;
};

void PrintTo(const bad_graph &shown, std::ostream *out) {
    *out << shown.name;
}

std::string cycle() {
    const auto add = [](int id, int in, int out) {
        return "{\"id\": " + std::to_string(id)
                + ", \"kind\": \"Add\", \"inputs\": [" + tensor_of(in, "[4]")
                + ", " + tensor_of(9, "[4]") + "], \"outputs\": ["
                + tensor_of(out, "[4]") + "]}";
    };
    return "{\"graph\": [" + add(0, 2, 1) + ", " + add(1, 1, 2) + "]}";
}

std::vector<bad_graph> bad_graphs() {
    const std::string deep(100, '[');
    const std::string linear = string_attr("mode", "linear");
    return {
            {"empty_file", "", {"bad JSON"}},
            {"truncated", interpolation(up_by_2).substr(0, 300), {"graph[0]"}},
            {"deep", deep + std::string(100, ']'), {"deeper"}},
            {"very_deep", std::string(1 << 20, '['), {"deeper"}},
            {"unknown_kind", graph_of("Softmax", "", "", ""),
                    {"graph[0].kind", "Softmax", "InterpolateBackward"}},
            {"unknown_mode", interpolation(string_attr("mode", "lanczos")),
                    {"graph[0].attrs.mode", "lanczos", "nearest"}},
            {"missing_mode", interpolation(list_attr("sizes", "[6, 8]")),
                    {"graph[0].attrs.mode", "missing"}},
            {"foreign_attribute",
                    interpolation(
                            up_by_2 + ", " + list_attr("groups", "1", "s64")),
                    {"graph[0].attrs.groups"}},
            {"attribute_type",
                    interpolation(linear + ", "
                            + list_attr("sizes", "[6, 8]", "f32[]")),
                    {"graph[0].attrs.sizes", "f32[]", "s64[]"}},
            {"no_size", interpolation(linear), {"graph[0]", "sizes", "scales"}},
            {"sizes_disagree",
                    interpolation(linear + ", " + list_attr("sizes", "[6, 9]")),
                    {"graph[0]", "sizes", "[6, 9]"}},
            {"scale_zero",
                    interpolation(linear + ", "
                            + list_attr("scales", "[0, 2]", "f32[]")),
                    {"graph[0].attrs.scales", "positive"}},
            {"scale_negative",
                    interpolation(linear + ", "
                            + list_attr("scales", "[2, -2]", "f32[]")),
                    {"graph[0].attrs.scales", "positive"}},
            {"scale_nan",
                    interpolation(linear + ", "
                            + list_attr("scales", "[NaN, 2]", "f32[]")),
                    {"graph[0].attrs.scales", "bad JSON"}},
            {"stride_zero", convolution("[0, 1]", "[1, 1]", "1"),
                    {"graph[0].attrs.strides", "[0, 1]"}},
            {"dilation_negative", convolution("[1, 1]", "[1, -1]", "1"),
                    {"graph[0].attrs.dilations", "[1, -1]"}},
            {"groups_do_not_divide", convolution("[1, 1]", "[1, 1]", "3"),
                    {"graph[0]", "groups"}},
            {"groups_zero", convolution("[1, 1]", "[1, 1]", "0"),
                    {"graph[0].attrs.groups"}},
            {"mixed_types",
                    graph_of("ReLUBackward", "",
                            tensor_of(0, "[4]") + ", "
                                    + tensor_of(1, "[4]", "bf16"),
                            tensor_of(2, "[4]")),
                    {"graph[0].inputs[1]", "bf16", "f32"}},
            {"integer_data",
                    graph_of("ReLUBackward", "",
                            tensor_of(0, "[4]", "s32") + ", "
                                    + tensor_of(1, "[4]", "s32"),
                            tensor_of(2, "[4]", "s32")),
                    {"graph[0].inputs[0]", "s32"}},
            {"missing_input",
                    graph_of("ReLUBackward", "", tensor_of(0, "[4]"),
                            tensor_of(2, "[4]")),
                    {"graph[0].inputs[1]", "missing"}},
            {"shapes_disagree",
                    graph_of("ReLUBackward", "",
                            tensor_of(0, "[4]") + ", " + tensor_of(1, "[5]"),
                            tensor_of(2, "[4]")),
                    {"graph[0]", "[4]", "[5]"}},
            {"overlapping_output",
                    graph_of("ReLUBackward", "",
                            tensor_of(0, "[4, 4]") + ", "
                                    + tensor_of(1, "[4, 4]"),
                            tensor_of(2, "[4, 4]", "f32",
                                    R"(, "stride": [1, 1])")),
                    {"graph[0].outputs[0]", "[1, 1]"}},
            {"unknown_input_shape",
                    graph_of("BiasAddBackward", "",
                            tensor_of(0, "[2, -9223372036854775808, 4]"),
                            tensor_of(1, "[4]")),
                    {"graph[0].inputs[0].shape", "known"}},
            {"cycle", cycle(), {"graph", "cycle"}},
            {"more_than_memory",
                    graph_of("ReLUBackward", "",
                            tensor_of(0, "[1048576, 1048576, 1024]") + ", "
                                    + tensor_of(1, "[1048576, 1048576, 1024]"),
                            tensor_of(2, "[1048576, 1048576, 1024]")),
                    {"graph[0].inputs[0].shape", "memory", "available"}},
            {"strides_beyond_memory",
                    graph_of("ReLUBackward", "",
                            tensor_of(0, "[2, 2]", "f32",
                                    R"(, "stride": [1000000000000000, 1])")
                                    + ", " + tensor_of(1, "[2, 2]"),
                            tensor_of(2, "[2, 2]")),
                    {"graph[0].inputs[0].shape", "memory"}},
            {"overflowing_dims",
                    graph_of("BiasAddBackward", "",
                            tensor_of(0,
                                    "[4611686018427387904, 4, "
                                    "4611686018427387904]"),
                            tensor_of(1, "[4611686018427387904]")),
                    {"graph[0].inputs[0].shape"}},
    };
}

class driver_bad_graphs : public driver,
                          public testing::WithParamInterface<bad_graph> {};

TEST_P(driver_bad_graphs, are_refused) {
    const std::string file = write("bad.json", GetParam().text);
    std::vector<std::string> pieces = GetParam().pieces;
    pieces.push_back(file);
    expect_refusal("run " + file + " --output 2=" + path("out.npy"), pieces);
    expect_refusal("check " + file, pieces);
    expect_refusal("bench " + file, pieces);
}

INSTANTIATE_TEST_SUITE_P(all, driver_bad_graphs,
        testing::ValuesIn(bad_graphs()),
        [](const auto &one) { return one.param.name; });

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(driver, memory_limits_of_the_process_count) {
    // 256 MiB three times do not fit in what the shell leaves. (Sanitizers need far
    // more address space than any limit leaves.)
    const std::string graph = write("large.json",
            graph_of("ReLUBackward", "",
                    tensor_of(0, "[67108864]") + ", "
                            + tensor_of(1, "[67108864]"),
                    tensor_of(2, "[67108864]")));
    expect_refusal("run " + graph + " --threads 1",
            {"large.json", "memory", "available"}, "ulimit -v 400000;");
}
#endif

} // namespace
