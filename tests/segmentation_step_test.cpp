// One training step captured from PyTorch (tests/data/segmentation_step): each
// gradient op with what it received and what it returned, and the chain of all
// of them as one graph.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "files/npy.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

struct captured {
    sizes dims;
    std::vector<double> values;
};

captured read(const std::string &name) {
    captured result;
    result.values = detail::read_npy(
            std::string(DATA_DIR) + "/segmentation_step/" + name + ".npy",
            &result.dims);
    return result;
}

double relative_error(
        const std::vector<double> &out, const std::vector<double> &expected) {
    if (out.size() != expected.size()) return INFINITY;
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < out.size(); ++i) {
        difference += (out[i] - expected[i]) * (out[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return std::sqrt(difference / norm);
}

logical_tensor tensor_like(
        size_t id, const captured &c, data_type type, bool output = false) {
    return {id, type, c.dims, output ? layout_type::any : layout_type::strided};
}

// PyTorch's own f32 sums are about as far from exact as ours.
double tolerance_against_torch(data_type type) {
    return type == data_type::f64 ? 4e-6 : 2 * tolerance_of(type);
}

using param = std::tuple<engine::kind, data_type>;

class segmentation_step : public testing::TestWithParam<param> {
protected:
    engine the_engine() const { return shared_engine(std::get<0>(GetParam())); }
    data_type type() const { return std::get<1>(GetParam()); }

    void check(const op &the_op, const std::vector<captured> &inputs,
            const std::vector<captured> &outputs) const {
        values_list values;
        for (const captured &c : inputs)
            values.push_back(c.values);
        op_run r(the_op, the_engine(), values);
        r.execute();
        r.expect_right();
        for (size_t index = 0; index < outputs.size(); ++index)
            EXPECT_LE(relative_error(r.output(index), outputs[index].values),
                    tolerance_against_torch(type()))
                    << "output " << index;
    }

    void check_convolution(const std::string &name, int64_t pad) const {
        const captured diff_dst = read(name + "_diff_dst");
        const captured src = read(name + "_src");
        const captured weights = read(name + "_weights");
        const captured diff_src = read(name + "_diff_src");
        const captured diff_weights = read(name + "_diff_weights");
        const captured diff_bias = read(name + "_diff_bias");
        op the_op(0, op::kind::ConvBackward,
                {tensor_like(0, diff_dst, type()), tensor_like(1, src, type()),
                        tensor_like(2, weights, type())},
                {tensor_like(3, diff_src, type(), true),
                        tensor_like(4, diff_weights, type(), true),
                        tensor_like(5, diff_bias, type(), true)},
                name);
        set_convolution(the_op, pad);
        check(the_op, {diff_dst, src, weights},
                {diff_src, diff_weights, diff_bias});
    }

    static void set_convolution(op &the_op, int64_t pad) {
        the_op.set_attr(op::attr::strides, sizes {1, 1});
        the_op.set_attr(op::attr::dilations, sizes {1, 1});
        the_op.set_attr(op::attr::pads_begin, sizes {pad, pad});
        the_op.set_attr(op::attr::pads_end, sizes {pad, pad});
        the_op.set_attr<std::string>(op::attr::data_format, "NCX");
        the_op.set_attr<std::string>(op::attr::weights_format, "OIX");
    }

    static void set_upsample(op &the_op) {
        the_op.set_attr<std::string>(op::attr::mode, "bilinear");
        the_op.set_attr<std::string>(op::attr::data_format, "NCX");
        the_op.set_attr(op::attr::sizes, sizes {136, 200});
    }
};

TEST_P(segmentation_step, upsample) {
    const captured diff_dst = read("upsample_diff_dst");
    const captured diff_src = read("upsample_diff_src");
    op the_op(0, op::kind::InterpolateBackward,
            {tensor_like(0, diff_src, type()),
                    tensor_like(1, diff_dst, type())},
            {tensor_like(2, diff_src, type(), true)}, "upsample");
    set_upsample(the_op);
    check(the_op, {diff_src, diff_dst}, {diff_src});
}

TEST_P(segmentation_step, classifier) {
    check_convolution("classifier", 0);
}

TEST_P(segmentation_step, conv3x3) {
    check_convolution("conv3x3", 1);
}

TEST_P(segmentation_step, relu) {
    const captured src = read("classifier_src");
    const captured diff_dst = read("classifier_diff_src");
    const captured diff_src = read("conv3x3_diff_dst");
    const op the_op(0, op::kind::ReLUBackward,
            {tensor_like(0, src, type()), tensor_like(1, diff_dst, type())},
            {tensor_like(2, diff_src, type(), true)}, "relu");
    check(the_op, {src, diff_dst}, {diff_src});
}

// The whole backward graph: what comes out of one op goes into the next. The ReLU
// and the convolution before it are one partition, with tensor 11 inside.
TEST_P(segmentation_step, chain) {
    const std::map<size_t, std::string> given {{0, "upsample_diff_src"},
            {1, "upsample_diff_dst"}, {2, "classifier_src"},
            {3, "classifier_weights"}, {4, "conv3x3_src"},
            {5, "conv3x3_weights"}};
    const std::map<size_t, std::string> made {{10, "upsample_diff_src"},
            {11, "classifier_diff_src"}, {12, "classifier_diff_weights"},
            {13, "classifier_diff_bias"}, {14, "conv3x3_diff_dst"},
            {15, "conv3x3_diff_src"}, {16, "conv3x3_diff_weights"},
            {17, "conv3x3_diff_bias"}};
    std::map<size_t, captured> data;
    std::map<size_t, logical_tensor> lts;
    for (const auto *list : {&given, &made})
        for (const auto &[id, name] : *list) {
            data[id] = read(name);
            lts[id] = {id, type(), data[id].dims, layout_type::strided};
        }

    op upsample(0, op::kind::InterpolateBackward, {lts[0], lts[1]}, {lts[10]},
            "upsample");
    set_upsample(upsample);
    op classifier(1, op::kind::ConvBackward, {lts[10], lts[2], lts[3]},
            {lts[11], lts[12], lts[13]}, "classifier");
    set_convolution(classifier, 0);
    const op relu(
            2, op::kind::ReLUBackward, {lts[2], lts[11]}, {lts[14]}, "relu");
    op conv(3, op::kind::ConvBackward, {lts[14], lts[4], lts[5]},
            {lts[15], lts[16], lts[17]}, "conv3x3");
    set_convolution(conv, 1);

    // Added in an order in which they cannot run.
    graph g(std::get<0>(GetParam()));
    for (const op *the_op : std::initializer_list<const op *> {
                 &conv, &relu, &classifier, &upsample})
        g.add_op(*the_op);
    g.finalize();
    const auto partitions = g.get_partitions();
    ASSERT_EQ(partitions.size(), 3U);

    const engine e = the_engine();
    std::map<size_t, std::unique_ptr<test_tensor>> tensors;
    for (const auto &[id, lt] : lts) {
        tensors[id] = std::make_unique<test_tensor>(lt, e,
                made.contains(id) ? test_tensor::role::output
                                  : test_tensor::role::input);
        if (given.contains(id)) tensors[id]->store(data[id].values);
    }
    stream s(e);
    for (const partition &p : partitions) {
        const auto in = p.get_input_ports();
        const auto out = p.get_output_ports();
        std::vector<tensor> inputs;
        std::vector<tensor> outputs;
        for (const logical_tensor &lt : in)
            inputs.push_back(tensors.at(lt.get_id())->get());
        for (const logical_tensor &lt : out)
            outputs.push_back(tensors.at(lt.get_id())->get());
        p.compile(in, out, e).execute(s, inputs, outputs);
    }
    s.wait();
    // Each op's rounding comes on top of the one before.
    for (const auto &[id, name] : made) {
        if (id == 11) continue;
        EXPECT_LE(relative_error(tensors[id]->load(), data[id].values),
                4 * tolerance_against_torch(type()))
                << name;
        EXPECT_EQ(tensors[id]->outside_damage(), "") << name;
    }
}

INSTANTIATE_TEST_SUITE_P(types, segmentation_step,
        testing::Combine(testing::ValuesIn(engine_kinds()),
                testing::ValuesIn(float_types())),
        [](const auto &each) {
            return std::string(to_string(std::get<0>(each.param))) + "_"
                    + to_string(std::get<1>(each.param));
        });

} // namespace
} // namespace gradnn::test
