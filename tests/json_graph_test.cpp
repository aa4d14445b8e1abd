// The reader of oneDNN Graph's JSON: what real files hold, and every way in
// which a file can be wrong.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

#include "files/json_graph.hpp"
#include "input_error.hpp"

namespace {

using namespace gradnn;
using gradnn::detail::input_error;
using gradnn::detail::json_graph;
using gradnn::detail::parse_json_graph;
using gradnn::detail::read_json_graph;

using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using dims = logical_tensor::dims;

// Two ops with an edge between them (tensor 2).
const std::string good = R"({
  "version": "3.2.0", "engine_kind": "cpu", "fpmath_mode": "strict",
  "input_ports": [0, 1, 3], "output_ports": [4],
  "graph": [
    {"id": 7, "name": "up", "kind": "InterpolateBackward",
     "attrs": {
       "mode": {"type": "string", "value": "linear"},
       "sizes": {"type": "s64[]", "value": [12, 14]},
       "data_format": {"type": "string", "value": "NCX"}},
     "inputs": [
       {"id": 0, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "undef"},
       {"id": 1, "dtype": "f32", "shape": [2, 3, 12, 14],
        "stride": [504, 168, 14, 1], "layout_type": "strided",
        "property_type": "undef"}],
     "outputs": [
       {"id": 2, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "variable"}]},
    {"id": 9, "name": "relu", "kind": "ReLUBackward",
     "attrs": {"use_dst": {"type": "bool", "value": 1}},
     "inputs": [
       {"id": 3, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "constant"},
       {"id": 2, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "undef"}],
     "outputs": [
       {"id": 4, "dtype": "f32", "shape": [2, 3, 6, 7],
        "stride": [126, 42, 7, 1], "layout_type": "strided",
        "property_type": "undef"}]}]})";

/// `good` with one piece replaced, at its first place or at a later one.
std::string changed(
        const std::string &from, const std::string &to, int occurrence = 0) {
    std::string text = good;
    size_t at = text.find(from);
    for (; occurrence > 0 && at != std::string::npos; --occurrence)
        at = text.find(from, at + 1);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

std::string message_of(const std::string &text) {
    try {
        parse_json_graph(text, "file.json");
    } catch (const input_error &error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

TEST(json_graph, reads_what_a_graph_says) {
    const json_graph graph = parse_json_graph(good, "file.json");
    EXPECT_EQ(graph.engine_kind, engine::kind::cpu);
    EXPECT_EQ(graph.fpmath, fpmath_mode::strict);
    EXPECT_EQ(graph.input_ports, (std::vector<size_t> {0, 1, 3}));
    EXPECT_EQ(graph.output_ports, (std::vector<size_t> {4}));
    ASSERT_EQ(graph.ops.size(), 2U);

    const op &up = graph.ops[0];
    EXPECT_EQ(up.get_id(), 7U);
    EXPECT_EQ(up.get_name(), "up");
    EXPECT_EQ(up.get_kind(), op::kind::InterpolateBackward);
    ASSERT_EQ(up.get_attrs().size(), 3U);
    EXPECT_EQ(
            std::get<std::string>(up.get_attrs().at(op::attr::mode)), "linear");
    EXPECT_EQ(
            std::get<std::vector<int64_t>>(up.get_attrs().at(op::attr::sizes)),
            (std::vector<int64_t> {12, 14}));
    ASSERT_EQ(up.get_inputs().size(), 2U);
    EXPECT_TRUE(up.get_inputs()[0].is_equal(logical_tensor(
            0, data_type::f32, dims {2, 3, 6, 7}, dims {126, 42, 7, 1})));
    EXPECT_EQ(up.get_outputs()[0].get_property_type(),
            logical_tensor::property_type::variable);

    const op &relu = graph.ops[1];
    EXPECT_TRUE(std::get<bool>(relu.get_attrs().at(op::attr::use_dst)));
    EXPECT_EQ(relu.get_inputs()[0].get_property_type(),
            logical_tensor::property_type::constant);
}

TEST(json_graph, takes_what_is_absent_as_its_default) {
    const json_graph graph = parse_json_graph(R"({"graph": [
        {"id": 0, "kind": "BiasAddBackward",
         "inputs": [{"id": 0, "dtype": "bf16", "shape": [2, 5, 4, 3]}],
         "outputs": [{"id": 1, "dtype": "bf16", "shape": [3]}]}]})",
            "file.json");
    EXPECT_EQ(graph.engine_kind, engine::kind::cpu);
    EXPECT_TRUE(graph.input_ports.empty());
    EXPECT_TRUE(graph.ops[0].get_attrs().empty());
    EXPECT_EQ(
            graph.ops[0].get_inputs()[0].get_strides(), (dims {60, 12, 3, 1}));
}

TEST(json_graph, ignores_unknown_keys_and_dump_notes) {
    const std::string text = changed("\"name\": \"up\"",
            "\"name\": \"up\", \"in_lts\": [1, 2], \"future\": {}");
    EXPECT_EQ(parse_json_graph(text, "f").ops.size(), 2U);
    const json_graph graph = parse_json_graph(
            changed("\"use_dst\"",
                    R"("partition_id": {"type": "string", "value": "0"},
                       "backend": {"type": "string", "value": "dnnl"},
                       "use_dst")"),
            "f");
    EXPECT_EQ(graph.ops[1].get_attrs().size(), 1U);
}

TEST(json_graph, reads_names_of_before_onednn_graph_3) {
    const json_graph graph = parse_json_graph(R"({"graph": [
        {"id": 0, "kind": "ConvolutionBackpropData",
         "attrs": {
           "filter_format": {"type": "string", "value": "XIO"},
           "output_shape": {"type": "s64[]", "value": [2, 56, 56, 128]}},
         "inputs": [
           {"id": 0, "dtype": "bf16", "shape": [2, 28, 28, 128]},
           {"id": 1, "dtype": "bf16", "shape": [3, 3, 128, 128]}],
         "outputs": [{"id": 2, "dtype": "bf16", "shape": [2, 56, 56, 128]}]}
        ]})",
            "file.json");
    const op &conv = graph.ops[0];
    EXPECT_EQ(conv.get_kind(), op::kind::ConvolutionBackwardData);
    EXPECT_EQ(std::get<std::string>(
                      conv.get_attrs().at(op::attr::weights_format)),
            "XIO");
    EXPECT_EQ(std::get<std::vector<int64_t>>(
                      conv.get_attrs().at(op::attr::dst_shape)),
            (std::vector<int64_t> {2, 56, 56, 128}));
    for (const char *kind : {"InterpolateBackprop", "BiasAddBackprop",
                 "ReLUBackprop", "ConvolutionBackpropFilters",
                 "ConvTransposeBackpropData", "ConvTransposeBackpropFilters"})
        EXPECT_NO_THROW(
                parse_json_graph(changed("InterpolateBackward", kind), "f"))
                << kind;
}

TEST(json_graph, twelve_zeros_are_no_shape) {
    // benchdnn's files write shapes that are not given in this way.
    const std::string zeros = "[0,0,0,0,0,0,0,0,0,0,0,0]";
    const json_graph graph = parse_json_graph(
            changed("\"sizes\": {\"type\": \"s64[]\", \"value\": [12, 14]}",
                    R"("dst_shape": {"type": "s64[]", "value": )" + zeros
                            + R"(}, "weights_shape": {"type": "s64[]",
                                "value": )"
                            + zeros + R"(}, "output_padding": {"type": "s64[]",
                                "value": )"
                            + zeros + "}"),
            "f");
    const auto &attrs = graph.ops[0].get_attrs();
    EXPECT_FALSE(attrs.contains(op::attr::dst_shape));
    EXPECT_FALSE(attrs.contains(op::attr::weights_shape));
    EXPECT_TRUE(attrs.contains(op::attr::output_padding));
}

TEST(json_graph, reads_every_attribute_type) {
    const auto attr = [](const std::string &name, const std::string &body) {
        return parse_json_graph(changed("\"use_dst\": {\"type\": \"bool\", "
                                        "\"value\": 1}",
                                        "\"" + name + "\": {" + body + "}"),
                "f")
                .ops[1]
                .get_attrs();
    };
    EXPECT_EQ(std::get<int64_t>(attr("groups", R"("type": "s64", "value": -3)")
                                        .at(op::attr::groups)),
            -3);
    EXPECT_EQ(std::get<std::vector<float>>(
                      attr("scales", R"("type": "f32[]", "value": [2, 1.5])")
                              .at(op::attr::scales)),
            (std::vector<float> {2, 1.5}));
    EXPECT_EQ(std::get<std::vector<double>>(
                      attr("ratios", R"("type": "f64[]", "value": [2, 0.1])")
                              .at(op::attr::ratios)),
            (std::vector<double> {2, 0.1}));
    EXPECT_EQ(std::get<float>(attr("scales", R"("type": "f32", "value": 0.5)")
                                      .at(op::attr::scales)),
            0.5F);
    EXPECT_FALSE(
            std::get<bool>(attr("use_dst", R"("type": "bool", "value": false)")
                                   .at(op::attr::use_dst)));
    EXPECT_FALSE(std::get<bool>(attr("use_dst", R"("type": "bool", "value": 0)")
                                        .at(op::attr::use_dst)));
}

TEST(json_graph, null_holds_the_place_of_an_absent_port) {
    const json_graph graph = parse_json_graph(R"({"graph": [
        {"id": 0, "kind": "ConvBackward",
         "inputs": [{"id": 0, "dtype": "f32", "shape": [1, 2, 3, 4]}],
         "outputs": [null, {"id": 1, "dtype": "f32", "shape": [3]}]}]})",
            "f");
    ASSERT_EQ(graph.ops[0].get_outputs().size(), 2U);
    EXPECT_TRUE(graph.ops[0].get_outputs()[0].is_absent());
    EXPECT_FALSE(graph.ops[0].get_outputs()[1].is_absent());
}

TEST(json_graph, reads_scalars_and_what_is_unknown) {
    const auto output = [](const std::string &shape, const std::string &rest) {
        return parse_json_graph(R"({"graph": [{"id": 0, "kind": "Add",
            "inputs": [{"id": 0, "dtype": "f64", "shape": []}],
            "outputs": [{"id": 1, "dtype": "f64", "shape": )"
                        + shape + rest + "}]}]}",
                "f")
                .ops[0]
                .get_outputs()[0];
    };
    const logical_tensor scalar = output("[]", ", \"stride\": []");
    EXPECT_TRUE(scalar.get_dims().empty());
    EXPECT_EQ(scalar.get_mem_size(), 8U);

    // oneDNN writes one unknown dim for a tensor of unknown rank.
    const std::string unknown = "-9223372036854775808";
    const logical_tensor nothing = output("[" + unknown + "]",
            ", \"stride\": [" + unknown + "], \"layout_type\": \"undef\"");
    EXPECT_THROW(nothing.get_dims(), error);
    EXPECT_EQ(nothing.get_layout_type(), layout_type::undef);

    const logical_tensor some
            = output("[4, " + unknown + "]", ", \"layout_type\": \"strided\"");
    EXPECT_EQ(some.get_dims(), (dims {4, logical_tensor::unknown_dim}));
    EXPECT_EQ(some.get_layout_type(), layout_type::any);

    const logical_tensor any
            = output("[4, 5]", R"(, "stride": "", "layout_type": "any")");
    EXPECT_EQ(any.get_dims(), (dims {4, 5}));
    EXPECT_EQ(any.get_layout_type(), layout_type::any);
}

TEST(json_graph, reads_both_forms_of_fpmath_mode) {
    const auto mode = [](const std::string &value) {
        return parse_json_graph(changed("\"strict\"", value), "f").fpmath;
    };
    EXPECT_EQ(mode("\"tf32\""), fpmath_mode::tf32);
    EXPECT_EQ(mode(R"({"mode": "bf16", "apply_to_int": false})"),
            fpmath_mode::bf16);
}

TEST(json_graph, strides_of_single_elements_may_differ) {
    // Dim 0 has one element: whatever its stride, the layout is the same.
    std::string text = good;
    for (size_t at = 0; (at = text.find("[2, 3,", at)) != std::string::npos;)
        text.replace(at, 6, "[1, 3,");
    const size_t last = text.rfind("[126, 42, 7, 1]");
    const size_t edge = text.rfind("[126, 42, 7, 1]", last - 1);
    text.replace(edge, 15, "[999, 42, 7, 1]");
    EXPECT_NO_THROW(parse_json_graph(text, "f"));
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
            {"not_an_object", "[1]", {"given an array of 1, wants an object"}},
            {"no_graph", R"({"version": "1"})", {"\"graph\" is missing"}},
            {"graph_is_string", R"({"graph": "x"})",
                    {"graph: given \"x\", wants an array"}},
            {"no_ops", R"({"graph": []})", {"graph: has no ops"}},
            {"op_is_number", R"({"graph": [3]})",
                    {"graph[0]: given 3, wants an object"}},
            {"engine", changed("\"cpu\"", "\"tpu\""),
                    {"engine_kind", "\"tpu\"", "cpu, gpu, any"}},
            {"fpmath", changed("\"strict\"", "\"loose\""),
                    {"fpmath_mode", "\"loose\"", "strict, bf16"}},
            {"no_op_id", changed("\"id\": 7,", ""),
                    {"graph[0]: \"id\" is missing"}},
            {"op_id_is_string", changed("\"id\": 7", "\"id\": \"7\""),
                    {"graph[0].id", "wants an id"}},
            {"op_id_is_negative", changed("\"id\": 7", "\"id\": -7"),
                    {"graph[0].id: given -7, wants an id"}},
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
                    {"graph[1].kind: given null, wants a string"}},
            {"kind_with_newline", changed("ReLUBackward", "a\\nb"),
                    {"graph[1].kind", "a?b"}},
            {"name_is_number", changed("\"up\"", "5"), {"graph[0].name"}},
            {"unknown_attr", changed("\"mode\"", "\"moed\""),
                    {"graph[0].attrs.moed", "no op has"}},
            {"attr_not_object",
                    changed("{\"type\": \"string\", \"value\": \"linear\"}",
                            "\"linear\""),
                    {"graph[0].attrs.mode: given \"linear\", wants an object"}},
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
                    {"graph[0].attrs.sizes.value: given 12, wants an array"}},
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
                    {"graph[0].outputs[0]: given \"x\", wants an object"}},
            {"no_tensor_id", changed("\"id\": 0, ", ""),
                    {"graph[0].inputs[0]: \"id\" is missing"}},
            {"no_dtype", changed("\"dtype\": \"f32\", ", ""),
                    {"graph[0].inputs[0]: \"dtype\" is missing"}},
            {"unknown_dtype", changed("\"f32\"", "\"f8_e5m2\"", 2),
                    {"graph[0].outputs[0].dtype", "\"f8_e5m2\"", "bf16"}},
            {"undef_dtype", changed("\"f32\"", "\"undef\""),
                    {"graph[0].inputs[0].dtype", "\"undef\""}},
            {"no_shape", changed("\"shape\": " + shape + ",", ""),
                    {"graph[0].inputs[1]: \"shape\" is missing"}},
            {"shape_is_number", changed(shape, "5"),
                    {shape_path + ": given 5, wants an array"}},
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
                << "wanted: " << piece << "\ngiven: " << message;
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

class json_example : public testing::TestWithParam<const char *> {};

TEST_P(json_example, is_read) {
    const json_graph graph = read_json_graph(
            std::string(EXAMPLES_DIR "/graphs/") + GetParam() + ".json");
    EXPECT_FALSE(graph.ops.empty());
}

INSTANTIATE_TEST_SUITE_P(all, json_example,
        testing::Values("segmentation_step", "interpolate_backward",
                "interpolate_backward_3d", "conv_backward",
                "conv_transpose_backward", "onednn_style"));

} // namespace
