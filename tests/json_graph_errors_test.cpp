// The reader of oneDNN Graph's JSON: every way in which a file can be wrong.
#include <gtest/gtest.h>

#include <string>

#include "base/input_error.hpp"
#include "files/json_graph.hpp"
#include "support/json_sample.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::test;
using gradnn::detail::input_error;
using gradnn::detail::parse_json_graph;
using gradnn::detail::read_json_graph;

using dims = logical_tensor::dims;

std::string message_of(const std::string &text) {
    try {
        parse_json_graph(text, "file.json");
    } catch (const input_error &error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

/// A way to be wrong: the text, and what the message must hold.
struct bad_case {
    std::string name;
    std::string text;
    std::vector<std::string> wanted;
};

void PrintTo(const bad_case &shown, std::ostream *out) {
    *out << shown.name;
}

std::string nested(
        const std::string &open, const std::string &close, int levels) {
    std::string text;
    for (int level = 0; level < levels; ++level)
        text += open;
    text += "0";
    for (int level = 0; level < levels; ++level)
        text += close;
    return text;
}

std::vector<bad_case> bad_cases() {
    const std::string shape = "[2, 3, 12, 14]";
    const std::string shape_path = "graph[0].inputs[1].shape";
    return {
            {"empty", "", {"bad JSON"}},
            {"not_json", "hello", {"bad JSON"}},
            {"truncated", good.substr(0, good.size() / 2),
                    {"graph[0].outputs[0]", "bad JSON", "line"}},
            {"trailing", good + "}", {"bad JSON"}},
            {"bad_utf8", changed("up", "\xff\xfe"), {"graph[0].name", "UTF-8"}},
            {"deep_arrays", nested("[", "]", 100),
                    {"[0][0][0]", "deeper than 64"}},
            {"very_deep_arrays", nested("[", "]", 1000000), {"deeper than 64"}},
            {"deep_unclosed", nested("{\"a\":", "", 100000),
                    {"deeper than 64"}},
            {"duplicate_key", changed("\"name\": \"up\"", "\"id\": 8"),
                    {"graph[0].id", "twice"}},
            {"not_an_object", "[1]",
                    {"given an array of 1, expected an object"}},
            {"no_graph", R"({"version": "1"})", {"\"graph\" is missing"}},
            {"graph_is_string", R"({"graph": "x"})",
                    {"graph: given \"x\", expected an array"}},
            {"no_ops", R"({"graph": []})", {"graph: has no ops"}},
            {"op_is_number", R"({"graph": [3]})",
                    {"graph[0]: given 3, expected an object"}},
            {"engine", changed("\"cpu\"", "\"tpu\""),
                    {"engine_kind", "\"tpu\"", "cpu, gpu, any"}},
            {"fpmath", changed("\"strict\"", "\"loose\""),
                    {"fpmath_mode", "\"loose\"", "strict, bf16"}},
            {"no_op_id", changed("\"id\": 7,", ""),
                    {"graph[0]: \"id\" is missing"}},
            {"op_id_is_string", changed("\"id\": 7", "\"id\": \"7\""),
                    {"graph[0].id", "expected an id"}},
            {"op_id_is_negative", changed("\"id\": 7", "\"id\": -7"),
                    {"graph[0].id: given -7, expected an id"}},
            {"op_id_is_fraction", changed("\"id\": 7", "\"id\": 7.5"),
                    {"graph[0].id: given 7.5"}},
            {"op_id_too_large",
                    changed("\"id\": 7", "\"id\": 18446744073709551615"),
                    {"graph[0].id"}},
            {"op_id_twice", changed("\"id\": 9", "\"id\": 7"),
                    {"graph[1].id: op id 7 is that of graph[0]"}},
            {"no_kind", changed("\"kind\": \"ReLUBackward\",", ""),
                    {"graph[1]: \"kind\" is missing"}},
            {"unknown_kind", changed("ReLUBackward", "ReLUForward"),
                    {"graph[1].kind", "\"ReLUForward\"", "ConvBackward",
                            "ReLUBackward"}},
            {"kind_is_null", changed("\"ReLUBackward\"", "null"),
                    {"graph[1].kind: given null, expected a string"}},
            {"kind_with_newline", changed("ReLUBackward", "a\\nb"),
                    {"graph[1].kind", "a?b"}},
            {"name_is_number", changed("\"up\"", "5"), {"graph[0].name"}},
            {"unknown_attr", changed("\"mode\"", "\"moed\""),
                    {"graph[0].attrs.moed", "no op has", "did you mean mode?"}},
            {"attr_not_object",
                    changed("{\"type\": \"string\", \"value\": \"linear\"}",
                            "\"linear\""),
                    {"graph[0].attrs.mode: given \"linear\", expected an "
                     "object"}},
            {"attr_no_type",
                    changed("\"type\": \"string\", \"value\": \"lin",
                            "\"value\": \"lin"),
                    {"graph[0].attrs.mode: \"type\" is missing"}},
            {"attr_no_value", changed(", \"value\": \"linear\"", ""),
                    {"graph[0].attrs.mode: \"value\" is missing"}},
            {"attr_unknown_type", changed("\"s64[]\"", "\"s65[]\""),
                    {"graph[0].attrs.sizes.type", "\"s65[]\"", "f32[], f64[]"}},
            {"attr_value_type", changed("[12, 14]", "[12, \"14\"]"),
                    {"graph[0].attrs.sizes.value[1]", "\"14\"", "integer"}},
            {"attr_value_fraction", changed("[12, 14]", "[12, 14.5]"),
                    {"graph[0].attrs.sizes.value[1]: given 14.5"}},
            {"attr_value_no_list", changed("[12, 14]", "12"),
                    {"graph[0].attrs.sizes.value: given 12, expected an "
                     "array"}},
            {"attr_bool", changed("\"value\": 1}", "\"value\": 2}"),
                    {"graph[1].attrs.use_dst.value: given 2"}},
            {"attr_nan", changed("\"value\": 1}", "\"value\": NaN}"),
                    {"graph[1].attrs.use_dst", "bad JSON"}},
            {"attr_huge",
                    changed("\"s64[]\", \"value\": [12, 14]",
                            "\"f32[]\", \"value\": [1e39]"),
                    {"graph[0].attrs.sizes.value[0]", "finite"}},
            {"attr_huger",
                    changed("\"s64[]\", \"value\": [12, 14]",
                            "\"f32[]\", \"value\": [1e999]"),
                    {"graph[0].attrs.sizes.value[0]", "bad JSON"}},
            {"attr_beyond_64_bits",
                    changed("[12, 14]", "[9223372036854775808, 14]"),
                    {"graph[0].attrs.sizes.value[0]", "64 bits"}},
            {"attr_twice_by_alias",
                    changed("\"sizes\": {",
                            R"("dst_shape": {"type": "s64[]", "value": [1]},
                               "output_shape": {)"),
                    {"graph[0].attrs.output_shape",
                            "dst_shape is given twice"}},
            {"no_inputs", changed("\"inputs\"", "\"ins\""),
                    {"graph[0]: \"inputs\" is missing"}},
            {"no_outputs", changed("\"outputs\"", "\"outs\"", 1),
                    {"graph[1]: \"outputs\" is missing"}},
            {"tensor_is_string",
                    changed("\"outputs\": [", "\"outputs\": [\"x\", "),
                    {"graph[0].outputs[0]: given \"x\", expected an object"}},
            {"no_tensor_id", changed("\"id\": 0, ", ""),
                    {"graph[0].inputs[0]: \"id\" is missing"}},
            {"no_dtype", changed("\"dtype\": \"f32\", ", ""),
                    {"graph[0].inputs[0]: \"dtype\" is missing"}},
            {"unknown_dtype", changed("\"f32\"", "\"f8_e3m4\"", 2),
                    {"graph[0].outputs[0].dtype", "\"f8_e3m4\"", "bf16"}},
            {"undef_dtype", changed("\"f32\"", "\"undef\""),
                    {"graph[0].inputs[0].dtype", "\"undef\""}},
            {"no_shape", changed("\"shape\": " + shape + ",", ""),
                    {"graph[0].inputs[1]: \"shape\" is missing"}},
            {"shape_is_number", changed(shape, "5"),
                    {shape_path + ": given 5, expected an array"}},
            {"dim_is_string", changed(shape, "[2, 3, \"12\", 14]"),
                    {shape_path + "[2]: given \"12\""}},
            {"dim_is_negative", changed(shape, "[2, -3, 12, 14]"),
                    {shape_path + "[1]: given -3", "negative"}},
            {"dim_overflows",
                    changed(shape, "[2, 99999999999999999999, 12, 14]"),
                    {shape_path + "[1]"}},
            {"dims_overflow_together",
                    changed(shape, "[4294967296, 4294967296, 4294967296, 1]"),
                    {"graph[0].inputs[1]", "2^63"}},
            {"dims_overflow_without_stride",
                    changed("[2, 3, 12, 14],\n        \"stride\": "
                            "[504, 168, 14, 1],",
                            "[4294967296, 4294967296, 4294967296, 1],"),
                    {shape_path, "2^63"}},
            {"strides_overflow",
                    changed("[504, 168, 14, 1]",
                            "[4611686018427387904, 168, 14, 1]"),
                    {"graph[0].inputs[1].stride", "2^63"}},
            {"too_many_dims",
                    changed(shape, "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"),
                    {shape_path, "13 dims", "12"}},
            {"stride_count", changed("[504, 168, 14, 1]", "[504, 168, 14]"),
                    {"graph[0].inputs[1].stride", "3 strides for 4 dims"}},
            {"stride_negative",
                    changed("[504, 168, 14, 1]", "[504, 168, 14, -1]"),
                    {"graph[0].inputs[1].stride[3]: given -1"}},
            {"layout_unknown", changed("\"strided\"", "\"dense\""),
                    {"graph[0].inputs[0].layout_type", "\"dense\"", "any"}},
            {"layout_opaque", changed("\"strided\"", "\"opaque\""),
                    {"graph[0].inputs[0].layout_type", "opaque"}},
            {"property_unknown", changed("\"undef\"", "\"fixed\""),
                    {"graph[0].inputs[0].property_type", "\"fixed\""}},
            {"two_shapes",
                    changed("\"id\": 2, \"dtype\": \"f32\", \"shape\": [2, 3, "
                            "6, 7]",
                            "\"id\": 2, \"dtype\": \"f32\", \"shape\": [2, 3, "
                            "7, 6]",
                            1),
                    {"graph[1].inputs[1].shape", "[2, 3, 7, 6]", "[2, 3, 6, 7]",
                            "graph[0].outputs[0]"}},
            {"two_dtypes",
                    changed("\"id\": 2, \"dtype\": \"f32\"",
                            "\"id\": 2, \"dtype\": \"f16\"", 1),
                    {"graph[1].inputs[1].dtype", "f16", "f32"}},
            {"two_layouts", changed("[126, 42, 7, 1]", "[126, 1, 21, 3]", 3),
                    {"graph[1].inputs[1]", "strides"}},
            {"two_producers", changed("\"id\": 4", "\"id\": 2"),
                    {"graph[1].outputs[0].id", "graph[0].outputs[0]"}},
            {"input_port_unknown", changed("[0, 1, 3]", "[0, 1, 33]"),
                    {"input_ports[2]", "33"}},
            {"output_port_type", changed("[4]", "[\"4\"]"),
                    {"output_ports[0]: given \"4\""}},
    };
}

class json_graph_errors : public testing::TestWithParam<bad_case> {};

TEST_P(json_graph_errors, name_file_path_and_fault) {
    const std::string message = message_of(GetParam().text);
    EXPECT_EQ(message.rfind("file.json: ", 0), 0U) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000U);
    for (const std::string &piece : GetParam().wanted)
        EXPECT_NE(message.find(piece), std::string::npos)
                << "expected: " << piece << "\ngiven: " << message;
}

INSTANTIATE_TEST_SUITE_P(all, json_graph_errors, testing::ValuesIn(bad_cases()),
        [](const auto &one) { return one.param.name; });

TEST(json_graph, truncation_at_any_byte_is_an_error) {
    for (size_t size = 0; size < good.size(); ++size)
        EXPECT_THROW(parse_json_graph(good.substr(0, size), "f"), input_error)
                << size;
}

TEST(json_graph, damage_at_any_byte_is_read_or_refused) {
    // Whatever a byte becomes, the answer is a graph or an input_error.
    for (size_t at = 0; at < good.size(); ++at)
        for (const char letter : {'\0', '"', '}', '[', '-', '9', '\xff'}) {
            std::string text = good;
            text[at] = letter;
            try {
                parse_json_graph(text, "f");
            } catch (const input_error &) {
                continue;
            }
        }
}

TEST(json_graph, files_that_cannot_be_read) {
    EXPECT_THROW(read_json_graph("/nonexistent/graph.json"), input_error);
    EXPECT_THROW(read_json_graph("/"), input_error);
    EXPECT_THROW(read_json_graph("/dev/null"), input_error);
}

} // namespace
