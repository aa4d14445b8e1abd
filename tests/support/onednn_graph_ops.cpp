#include "support/onednn_graph_ops.hpp"

#include <algorithm>

namespace gradnn::test {
namespace {

sizes data_dims(bool ncx, int64_t n, int64_t c, const sizes &space) {
    sizes dims {n};
    if (ncx) dims.push_back(c);
    dims.insert(dims.end(), space.begin(), space.end());
    if (!ncx) dims.push_back(c);
    return dims;
}

/// The spatial dims of a convolution.
struct space {
    sizes large, small, kernel;
    sizes padding; ///< of the output
};

/// Draws them, with strides, dilations and pads.
space random_space(description &d, random_source &numbers, size_t rank,
        const std::string &auto_pad) {
    const bool same = auto_pad.compare(0, 4, "SAME") == 0;
    space made;
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
        made.large.push_back(l);
        made.small.push_back(s);
        made.kernel.push_back(k);
        d.lists["strides"].push_back(stride);
        d.lists["dilations"].push_back(dilation);
        d.lists["pads_begin"].push_back(begin);
        d.lists["pads_end"].push_back(end);
        made.padding.push_back(numbers.integer(0, 2) == 0
                        ? numbers.integer(0, stride - 1)
                        : rest);
    }
    return made;
}

/// Data and weights gradients of convolutions, then of transposed ones.
void set_kind(description &d, int64_t which) {
    using kinds = op::kind;
    using onednn_kinds = dnnl::graph::op::kind;
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
}

} // namespace

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
    const auto [large, small, kernel, padding]
            = random_space(d, numbers, rank, auto_pad);
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
    set_kind(d, which);
    return d;
}

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

} // namespace gradnn::test
