// The reader of oneDNN Graph's JSON: what real files hold.
#include <gtest/gtest.h>

#include <string>

#include <gradnn/gradnn.hpp>

#include "files/json_graph.hpp"
#include "support/json_sample.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::test;
using gradnn::detail::json_graph;
using gradnn::detail::parse_json_graph;
using gradnn::detail::read_json_graph;

using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using dims = logical_tensor::dims;

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

// Other libraries' ops of oneDNN Graph up to 3.13, beside one of gradnn's.
TEST(json_graph, reads_names_up_to_onednn_graph_3_13) {
    const json_graph graph
            = read_json_graph(DATA_DIR "/onednn_style/names_of_3_13.json");
    ASSERT_EQ(graph.ops.size(), 6U);
    EXPECT_EQ(graph.ops[1].get_kind(), op::kind::Dropout);
    EXPECT_EQ(graph.ops[1].get_inputs()[3].get_property_type(),
            logical_tensor::property_type::host_scalar);
    EXPECT_EQ(graph.ops[1].get_inputs()[1].get_data_type(), data_type::s64);
    const data_type types[] = {data_type::f8_e5m2, data_type::f8_e4m3,
            data_type::s4, data_type::u4};
    for (size_t index = 0; index < 4; ++index) {
        const logical_tensor &lt = graph.ops[2 + index].get_outputs()[0];
        EXPECT_EQ(lt.get_data_type(), types[index]);
        EXPECT_EQ(lt.get_mem_size(), index < 2 ? 32U : 16U);
    }
    gradnn::graph whole(graph.engine_kind);
    for (const op &each : graph.ops)
        whole.add_op(each);
    whole.finalize();
    for (const partition &each : whole.get_partitions())
        EXPECT_EQ(each.is_supported(), each.get_ops()[0] == 0);
}

// No op of gradnn computes in them.
TEST(json_graph, types_of_other_libraries_are_refused_by_ops_of_gradnn) {
    const json_graph graph
            = parse_json_graph(changed("\"f32\"", "\"f8_e5m2\"", 0), "f");
    gradnn::graph whole(graph.engine_kind);
    try {
        whole.add_op(graph.ops[0]);
        FAIL() << "took f8_e5m2";
    } catch (const error &failure) {
        EXPECT_NE(
                std::string(failure.what()).find("f8_e5m2"), std::string::npos);
    }
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

class json_example : public testing::TestWithParam<const char *> {};

TEST_P(json_example, is_read) {
    const json_graph graph = read_json_graph(
            std::string(EXAMPLES_DIR "/graphs/") + GetParam() + ".json");
    EXPECT_FALSE(graph.ops.empty());
}

INSTANTIATE_TEST_SUITE_P(all, json_example,
        testing::Values("segmentation_step", "interpolate_backward",
                "interpolate_backward_3d", "conv_backward",
                "conv_transpose_backward", "onednn_style"),
        [](const auto &each) { return std::string(each.param); });

} // namespace
