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

#include "support/random_cases.hpp"

// oneDNN leaks what it made of a partition that it then cannot compile.
// (LeakSanitizer asks this function, where it is compiled in.)
extern "C" __attribute__((visibility("default"))) const char *
__lsan_default_suppressions() {
    return "leak:dnnl_graph_\nleak:dnnl::impl::graph";
}

namespace gradnn::test {
namespace {

/// A port: dims that are given, or a rank alone.
struct port {
    sizes dims;
    bool known = true;
};

/// An op, for either library.
struct description {
    const char *name = "";
    op::kind kind = op::kind::LastSymbol;
    dnnl::graph::op::kind onednn_kind = dnnl::graph::op::kind::LastSymbol;
    std::vector<port> inputs;
    std::vector<port> outputs;
    std::map<std::string, sizes> lists;
    std::map<std::string, std::string> words;
    std::map<std::string, int64_t> numbers;
    std::map<std::string, bool> flags;

    std::string text() const {
        std::string result = name;
        for (const auto *ports : {&inputs, &outputs})
            for (const port &each : *ports)
                result += " " + testing::PrintToString(each.dims)
                        + (each.known ? "" : "?");
        for (const auto &[key, value] : lists)
            result += " " + key + testing::PrintToString(value);
        for (const auto &[key, value] : words)
            result += " " + key + " " + value;
        for (const auto &[key, value] : numbers)
            result += " " + key + " " + std::to_string(value);
        return result;
    }
};

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

sizes data_dims(bool ncx, int64_t n, int64_t c, const sizes &space) {
    sizes dims {n};
    if (ncx) dims.push_back(c);
    dims.insert(dims.end(), space.begin(), space.end());
    if (!ncx) dims.push_back(c);
    return dims;
}

/// One of the four kinds of convolution that both libraries have. Sizes fit
/// together in most cases, and whatever rest, output_padding and dst_shape
/// there may be is for oneDNN to accept or not.
description random_convolution_op(random_source &numbers) {
    description d;
    const int64_t which = numbers.integer(0, 3);
    const bool transposed = which >= 2;
    const bool weights_gradient = which % 2 == 1;
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    const bool ncx = numbers.integer(0, 1) == 0;
    const bool channels_first = numbers.integer(0, 1) == 0;
    const int64_t groups = numbers.integer(0, 2) == 0 ? 2 : 1;
    const int64_t n = numbers.integer(1, 2);
    const int64_t large_channels = groups * numbers.integer(1, 3);
    const int64_t small_channels = groups * numbers.integer(1, 3);
    // In the letters that oneDNN 3.2 takes. Of ConvTransposeBackwardWeights it
    // takes other pads than the shapes give for same_*: not asked here.
    std::vector<std::string> auto_pads {"None", "None", "None", "VALID"};
    if (which != 3)
        auto_pads.insert(auto_pads.end(), {"SAME_UPPER", "SAME_LOWER"});
    const std::string auto_pad = numbers.pick(auto_pads);
    const bool same = auto_pad.compare(0, 4, "SAME") == 0;
    sizes large;
    sizes small;
    sizes kernel;
    sizes padding;
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t k = numbers.integer(1, 3);
        const int64_t stride = numbers.integer(1, 3);
        const int64_t dilation = numbers.integer(1, 2);
        const int64_t begin = numbers.integer(0, k - 1);
        const int64_t end = numbers.integer(0, k - 1);
        const int64_t window = (k - 1) * dilation + 1;
        const int64_t pads = auto_pad == "None" ? begin + end : 0;
        const int64_t rest = numbers.integer(0, 2) == 0
                ? numbers.integer(0, stride - 1)
                : 0;
        int64_t s = numbers.integer(1, 4);
        int64_t l = (s - 1) * stride + window - pads + rest;
        if (same) l = s * stride - rest;
        if (l < 1) {
            l += stride;
            ++s;
        }
        if (numbers.integer(0, 30) == 0) ++l;
        large.push_back(l);
        small.push_back(s);
        kernel.push_back(k);
        d.lists["strides"].push_back(stride);
        d.lists["dilations"].push_back(dilation);
        d.lists["pads_begin"].push_back(begin);
        d.lists["pads_end"].push_back(end);
        padding.push_back(numbers.integer(0, 2) == 0
                        ? numbers.integer(0, stride - 1)
                        : rest);
    }
    d.words["auto_pad"] = auto_pad;
    d.words["data_format"] = ncx ? "NCX" : "NXC";
    d.words["weights_format"] = channels_first ? (transposed ? "IOX" : "OIX")
                                               : (transposed ? "XOI" : "XIO");
    d.numbers["groups"] = groups;
    sizes weights;
    const int64_t large_of_group = large_channels / groups;
    if (channels_first) weights = {small_channels, large_of_group};
    weights.insert(weights.end(), kernel.begin(), kernel.end());
    if (!channels_first)
        weights.insert(weights.end(), {large_of_group, small_channels});
    const port large_port {data_dims(ncx, n, large_channels, large)};
    const port small_port {data_dims(ncx, n, small_channels, small)};
    const port weights_port {weights};
    const bool open = numbers.integer(0, 1) == 0;
    using kinds = op::kind;
    using onednn_kinds = dnnl::graph::op::kind;
    if (weights_gradient) {
        d.inputs = transposed ? std::vector<port> {small_port, large_port}
                              : std::vector<port> {large_port, small_port};
        d.outputs = {weights_port};
        if (open || numbers.integer(0, 1) == 0)
            d.lists["weights_shape"] = weights;
    } else {
        d.inputs = {transposed ? large_port : small_port, weights_port};
        d.outputs = {transposed ? small_port : large_port};
        if (!transposed && numbers.integer(0, 1) == 0)
            d.lists["dst_shape"] = large_port.dims;
    }
    d.outputs[0].known = !open;
    const bool has_padding
            = (which == 0 || which == 3) && numbers.integer(0, 1) == 0;
    if (has_padding) d.lists["output_padding"] = padding;
    switch (which) {
        case 0:
            d.name = "ConvolutionBackwardData";
            d.kind = kinds::ConvolutionBackwardData;
            d.onednn_kind = onednn_kinds::ConvolutionBackwardData;
            break;
        case 1:
            d.name = "ConvolutionBackwardWeights";
            d.kind = kinds::ConvolutionBackwardWeights;
            d.onednn_kind = onednn_kinds::ConvolutionBackwardWeights;
            break;
        case 2:
            d.name = "ConvTransposeBackwardData";
            d.kind = kinds::ConvTransposeBackwardData;
            d.onednn_kind = onednn_kinds::ConvTransposeBackwardData;
            break;
        default:
            d.name = "ConvTransposeBackwardWeights";
            d.kind = kinds::ConvTransposeBackwardWeights;
            d.onednn_kind = onednn_kinds::ConvTransposeBackwardWeights;
    }
    return d;
}

/// Add with dims that broadcast, or not.
description random_add(random_source &numbers) {
    description d;
    d.name = "Add";
    d.kind = op::kind::Add;
    d.onednn_kind = dnnl::graph::op::kind::Add;
    const auto rank = static_cast<size_t>(numbers.integer(1, 4));
    sizes whole;
    sizes a;
    sizes b;
    for (size_t axis = 0; axis < rank; ++axis) {
        whole.push_back(numbers.integer(1, 4));
        a.push_back(numbers.integer(0, 3) == 0 ? 1 : whole.back());
        b.push_back(numbers.integer(0, 3) == 0 ? 1 : whole.back());
        whole.back() = std::max(a.back(), b.back());
    }
    if (numbers.integer(0, 2) == 0)
        b.erase(b.begin(),
                b.begin() + numbers.integer(0, static_cast<int64_t>(rank) - 1));
    for (size_t axis = 0; axis < rank; ++axis) {
        const size_t missing = rank - b.size();
        whole[axis] = axis < missing ? a[axis]
                                     : std::max(a[axis], b[axis - missing]);
    }
    if (numbers.integer(0, 1) == 0) std::swap(a, b);
    d.inputs = {{a}, {b}};
    d.outputs = {{whole, numbers.integer(0, 1) == 0}};
    // oneDNN 3.2 broadcasts with "none" too where the dims of dst are given,
    // against its own documentation: not asked here.
    if (numbers.integer(0, 2) != 0)
        d.words["auto_broadcast"]
                = a == b && numbers.integer(0, 1) == 0 ? "none" : "numpy";
    return d;
}

description random_other(random_source &numbers) {
    description d;
    const bool ncx = numbers.integer(0, 1) == 0;
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    sizes space;
    sizes resized;
    for (size_t axis = 0; axis < rank; ++axis) {
        space.push_back(numbers.integer(1, 5));
        resized.push_back(numbers.integer(1, 9));
    }
    const int64_t n = numbers.integer(1, 2);
    const int64_t c = numbers.integer(1, 4);
    const port src {data_dims(ncx, n, c, space)};
    const bool known = numbers.integer(0, 1) == 0;
    switch (numbers.integer(0, 2)) {
        case 0:
            d.name = "BiasAddBackward";
            d.kind = op::kind::BiasAddBackward;
            d.onednn_kind = dnnl::graph::op::kind::BiasAddBackward;
            d.inputs = {src};
            d.outputs = {{{c}, known}};
            d.words["data_format"] = ncx ? "NCX" : "NXC";
            break;
        case 1:
            d.name = "ReLUBackward";
            d.kind = op::kind::ReLUBackward;
            d.onednn_kind = dnnl::graph::op::kind::ReLUBackward;
            d.inputs = {src, src};
            d.outputs = {{src.dims, known}};
            d.flags["use_dst"] = numbers.integer(0, 1) == 0;
            break;
        default:
            d.name = "InterpolateBackward";
            d.kind = op::kind::InterpolateBackward;
            d.onednn_kind = dnnl::graph::op::kind::InterpolateBackward;
            d.inputs = {src, {data_dims(ncx, n, c, resized)}};
            d.outputs = {{src.dims, known}};
            d.lists["sizes"] = resized;
            d.words["data_format"] = ncx ? "NCX" : "NXC";
            d.words["coordinate_transformation_mode"] = "half_pixel";
            d.words["mode"] = numbers.integer(0, 1) == 0 ? "nearest" : "linear";
    }
    return d;
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
