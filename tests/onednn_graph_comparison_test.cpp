// Random ops that oneDNN Graph and gradnn both have, given to both: what oneDNN
// Graph compiles must compile here, with the same dims and the same values.
// GRADNN_TEST_SEED repeats a run.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl_graph.hpp>

#include <gradnn/gradnn.hpp>

#include "support/onednn_graph_ops.hpp"
#include "support/random_cases.hpp"

// oneDNN leaks what it made of a partition that it then cannot compile.
// (LeakSanitizer asks this function, where it is compiled in.)
extern "C" __attribute__((visibility("default"))) const char *
__lsan_default_suppressions() {
    return "leak:dnnl_graph_\nleak:dnnl::impl::graph";
}

namespace gradnn::test {
namespace {

using values = std::vector<std::vector<float>>;

/// gradnn's names and values are oneDNN Graph's, so that one template serves.
struct gradnn_api {
    using op = gradnn::op;
    using logical_tensor = gradnn::logical_tensor;
    using tensor = gradnn::tensor;
    using graph = gradnn::graph;
    using engine = gradnn::engine;
    using stream = gradnn::stream;
    static op::kind kind(const description &d) { return d.kind; }
};
struct onednn_api {
    using op = dnnl::graph::op;
    using logical_tensor = dnnl::graph::logical_tensor;
    using tensor = dnnl::graph::tensor;
    using graph = dnnl::graph::graph;
    using engine = dnnl::engine;
    using stream = dnnl::stream;
    static op::kind kind(const description &d) { return d.onednn_kind; }
};

template <typename Attr>
const std::map<std::string, Attr> &attr_names() {
    static const std::map<std::string, Attr> names {{"strides", Attr::strides},
            {"pads_begin", Attr::pads_begin}, {"pads_end", Attr::pads_end},
            {"dilations", Attr::dilations}, {"groups", Attr::groups},
            {"auto_pad", Attr::auto_pad},
            {"output_padding", Attr::output_padding},
            {"dst_shape", Attr::dst_shape},
            {"weights_shape", Attr::weights_shape},
            {"data_format", Attr::data_format},
            {"weights_format", Attr::weights_format},
            {"use_dst", Attr::use_dst},
            {"auto_broadcast", Attr::auto_broadcast}, {"mode", Attr::mode},
            {"sizes", Attr::sizes},
            {"coordinate_transformation_mode",
                    Attr::coordinate_transformation_mode}};
    return names;
}

template <typename Api>
typename Api::logical_tensor port_of(size_t id, const port &each) {
    using lt = typename Api::logical_tensor;
    if (!each.known)
        return lt(id, lt::data_type::f32, static_cast<int>(each.dims.size()),
                lt::layout_type::strided);
    return lt(id, lt::data_type::f32, each.dims, lt::layout_type::strided);
}

/// What one library makes of an op. Throws where it refuses.
struct result {
    std::vector<sizes> dims;
    values outputs;
};

template <typename Api>
result run(const description &d, const values &inputs) {
    using lt = typename Api::logical_tensor;
    std::vector<lt> in;
    std::vector<lt> out;
    for (const port &each : d.inputs)
        in.push_back(port_of<Api>(in.size(), each));
    for (const port &each : d.outputs)
        out.push_back(port_of<Api>(in.size() + out.size(), each));
    typename Api::op the_op(0, Api::kind(d), in, out, d.name);
    const auto &names = attr_names<typename Api::op::attr>();
    for (const auto &[key, value] : d.lists)
        the_op.set_attr(names.at(key), value);
    for (const auto &[key, value] : d.words)
        the_op.set_attr(names.at(key), value);
    for (const auto &[key, value] : d.numbers)
        the_op.set_attr(names.at(key), value);
    for (const auto &[key, value] : d.flags)
        the_op.set_attr(names.at(key), value);
    typename Api::graph g(Api::engine::kind::cpu);
    g.add_op(the_op);
    g.finalize();
    const typename Api::engine cpu(Api::engine::kind::cpu, 0);
    const auto compiled = g.get_partitions().at(0).compile(in, out, cpu);
    result made;
    std::vector<typename Api::tensor> in_tensors;
    std::vector<typename Api::tensor> out_tensors;
    values copies = inputs;
    for (size_t i = 0; i < in.size(); ++i)
        in_tensors.emplace_back(in[i], cpu, copies[i].data());
    for (const lt &each : out) {
        const lt complete = compiled.query_logical_tensor(each.get_id());
        made.dims.push_back(complete.get_dims());
        made.outputs.emplace_back(complete.get_mem_size() / sizeof(float));
    }
    for (size_t i = 0; i < out.size(); ++i)
        out_tensors.emplace_back(compiled.query_logical_tensor(out[i].get_id()),
                cpu, made.outputs[i].data());
    typename Api::stream queue(cpu);
    compiled.execute(queue, in_tensors, out_tensors);
    queue.wait();
    return made;
}

size_t count_of(const sizes &dims) {
    size_t count = 1;
    for (const int64_t dim : dims)
        count *= static_cast<size_t>(dim);
    return count;
}

/// Nothing where oneDNN refuses.
std::optional<result> onednn_result(
        const description &d, const values &inputs) {
    try {
        return run<onednn_api>(d, inputs);
    } catch (const dnnl::error &) {
        return {};
    }
}

/// The spatial dims of a tensor: those before or after its two others.
sizes space_of(const sizes &dims, bool others_first) {
    if (others_first) return {dims.begin() + 2, dims.end()};
    return {dims.begin(), dims.end() - 2};
}
sizes data_space(const description &d, const port &each) {
    const sizes &dims = each.dims;
    if (d.words.at("data_format") == "NCX")
        return {dims.begin() + 2, dims.end()};
    return {dims.begin() + 1, dims.end() - 1};
}

/// What oneDNN 3.2 computes instead, where that is a known fault of its own: it
/// ignores the dilations of ConvTransposeBackwardData, though not in the pads of
/// auto_pad same_*. `small` is diff_src.
std::optional<description> as_the_fault_has_it(
        const description &d, const port &small) {
    if (d.kind != op::kind::ConvTransposeBackwardData) return {};
    const std::string &auto_pad = d.words.at("auto_pad");
    const sizes src = data_space(d, small);
    const sizes dst = data_space(d, d.inputs[0]);
    const sizes window = space_of(
            d.inputs[1].dims, d.words.at("weights_format").back() == 'X');
    description changed = d;
    changed.words.at("auto_pad") = "None";
    for (size_t axis = 0; axis < src.size(); ++axis) {
        const int64_t positions = (src[axis] - 1) * d.lists.at("strides")[axis];
        int64_t &dilation = changed.lists.at("dilations")[axis];
        int64_t &begin = changed.lists.at("pads_begin")[axis];
        if (auto_pad.compare(0, 4, "SAME") == 0) {
            const int64_t pads = std::max<int64_t>(0,
                    positions + (window[axis] - 1) * dilation + 1 - dst[axis]);
            begin = auto_pad == "SAME_UPPER" ? pads / 2 : pads - pads / 2;
        }
        if (auto_pad == "VALID") begin = 0;
        dilation = 1;
        changed.lists.at("pads_end")[axis]
                = positions + window[axis] - dst[axis] - begin;
    }
    return changed;
}

double difference(const std::vector<float> &a, const std::vector<float> &b) {
    double squares = 0;
    double whole = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        squares += std::pow(double {a[i]} - double {b[i]}, 2);
        whole += std::pow(double {b[i]}, 2);
    }
    return whole == 0 ? squares : std::sqrt(squares / whole);
}

/// Empty where gradnn compiles it too, with the same dims and values.
std::string disagreement(
        const description &d, const values &inputs, const result &theirs) {
    try {
        const result ours = run<gradnn_api>(d, inputs);
        if (ours.dims != theirs.dims)
            return "other dims: " + testing::PrintToString(ours.dims) + ", not "
                    + testing::PrintToString(theirs.dims);
        for (size_t i = 0; i < ours.outputs.size(); ++i) {
            const double apart = difference(ours.outputs[i], theirs.outputs[i]);
            if (!(apart <= 1e-5))
                return "other values: " + std::to_string(apart);
        }
    } catch (const error &failure) {
        return failure.what();
    }
    return {};
}

/// Whether oneDNN 3.2 may give anything: its AVX2 kernel writes past its scratch
/// memory for gradients of weights of 1x1 windows with strides.
bool is_left_to_chance(const description &d) {
    if (d.kind != op::kind::ConvolutionBackwardWeights
            && d.kind != op::kind::ConvTransposeBackwardWeights)
        return false;
    const auto is_one = [](int64_t value) { return value == 1; };
    const sizes window = space_of(
            d.outputs[0].dims, d.words.at("weights_format").back() == 'X');
    const sizes &strides = d.lists.at("strides");
    return std::all_of(window.begin(), window.end(), is_one)
            && !std::all_of(strides.begin(), strides.end(), is_one);
}

/// How often oneDNN compiled.
int compare_all(description (*make)(random_source &), int rounds) {
    random_source numbers(printed_seed() + 7);
    int compiled = 0;
    for (int round = 0; round < rounds; ++round) {
        const description d = make(numbers);
        values inputs;
        for (const port &each : d.inputs) {
            inputs.emplace_back(count_of(each.dims));
            for (float &value : inputs.back())
                value = static_cast<float>(numbers.value());
        }
        if (is_left_to_chance(d)) continue;
        const auto theirs = onednn_result(d, inputs);
        if (!theirs) continue;
        ++compiled;
        const std::string found = disagreement(d, inputs, *theirs);
        if (found.empty()) continue;
        const auto changed = as_the_fault_has_it(d, {theirs->dims[0]});
        if (changed && disagreement(*changed, inputs, *theirs).empty())
            continue;
        ADD_FAILURE() << "round " << round << ": " << d.text() << ": " << found;
    }
    return compiled;
}

TEST(as_onednn_graph, convolutions) {
    EXPECT_GT(compare_all(random_convolution_op, 1500), 500);
}

TEST(as_onednn_graph, additions) {
    EXPECT_GT(compare_all(random_add, 500), 200);
}

TEST(as_onednn_graph, others) {
    EXPECT_GT(compare_all(random_other, 500), 200);
}

// Every kind and attribute has oneDNN's value, so that numbers written for it
// mean the same.
TEST(as_onednn_graph, values_of_enumerators) {
    using theirs = dnnl::graph::op;
    const auto same = [](auto a, auto b) {
        EXPECT_EQ(static_cast<int>(a), static_cast<int>(b));
    };
    same(op::kind::Abs, theirs::kind::Abs);
    same(op::kind::Add, theirs::kind::Add);
    same(op::kind::BiasAddBackward, theirs::kind::BiasAddBackward);
    same(op::kind::ConvTransposeBackwardData,
            theirs::kind::ConvTransposeBackwardData);
    same(op::kind::ConvTransposeBackwardWeights,
            theirs::kind::ConvTransposeBackwardWeights);
    same(op::kind::ConvolutionBackwardData,
            theirs::kind::ConvolutionBackwardData);
    same(op::kind::ConvolutionBackwardWeights,
            theirs::kind::ConvolutionBackwardWeights);
    same(op::kind::End, theirs::kind::End);
    same(op::kind::InterpolateBackward, theirs::kind::InterpolateBackward);
    same(op::kind::MatMul, theirs::kind::MatMul);
    same(op::kind::ReLUBackward, theirs::kind::ReLUBackward);
    same(op::kind::SoftMaxBackward, theirs::kind::SoftMaxBackward);
    same(op::kind::Wildcard, theirs::kind::Wildcard);
    same(op::kind::Pow, theirs::kind::Pow);
    const auto &ours = attr_names<op::attr>();
    for (const auto &[name, value] : attr_names<theirs::attr>())
        same(ours.at(name), value);
    same(op::attr::alpha, theirs::attr::alpha);
    same(op::attr::zps, theirs::attr::zps);
    same(op::attr::rounding_type, theirs::attr::rounding_type);
}

} // namespace
} // namespace gradnn::test
