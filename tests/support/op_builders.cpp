#include "op_builders.hpp"

#include <algorithm>
#include <numeric>

#include "random.hpp"

namespace gradnn::test {

namespace {

sizes dense_strides_of(
        const sizes &dims, const std::vector<size_t> &order, int64_t gap) {
    // `order` lists the axes from the outermost to the innermost in memory.
    sizes strides(dims.size());
    int64_t stride = 1;
    for (size_t place = order.size(); place-- > 0;) {
        const size_t axis = order[place];
        strides[axis] = stride;
        stride *= std::max<int64_t>(dims[axis], 1) + gap;
    }
    return strides;
}

std::vector<size_t> in_order(size_t rank) {
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), size_t {0});
    return order;
}

logical_tensor arranged(size_t id, data_type type, const sizes &dims,
        arrangement how, bool output, const std::vector<size_t> &other) {
    std::vector<size_t> order = in_order(dims.size());
    switch (how) {
        case arrangement::dense: break;
        case arrangement::any:
            if (output) return {id, type, dims, layout_type::any};
            break;
        case arrangement::other_order: order = other; break;
        case arrangement::swapped: std::swap(order[0], order[1]); break;
        case arrangement::padded:
            return {id, type, dims, dense_strides_of(dims, order, 2)};
        case arrangement::spaced:
            return {id, type, dims, dense_strides_of(dims, order, 8)};
        case arrangement::broadcast:
            if (!output) {
                sizes strides = dense_strides_of(dims, order, 0);
                strides[0] = 0;
                return {id, type, dims, strides};
            }
            break;
    }
    return {id, type, dims, dense_strides_of(dims, order, 0)};
}

} // namespace

const std::vector<layout> &layouts() {
    static const std::vector<layout> all {
            {"ncx", "NCX", "OIX"},
            {"nxc", "NXC", "XIO"},
            {"ncx_xio", "NCX", "XIO"},
            {"nxc_oix", "NXC", "OIX"},
            {"acdb", "NCX", "OIX", arrangement::other_order},
            {"nxc_in_ncx_memory", "NXC", "XIO", arrangement::other_order},
            {"bacd", "NCX", "OIX", arrangement::swapped},
            {"sliced_ncx", "NCX", "OIX", arrangement::padded},
            {"sliced_nxc", "NXC", "XIO", arrangement::padded},
            {"spaced_nxc", "NXC", "XIO", arrangement::spaced},
            {"broadcast", "NCX", "OIX", arrangement::broadcast},
            {"any_ncx", "NCX", "OIX", arrangement::any},
            {"any_nxc", "NXC", "XIO", arrangement::any},
    };
    return all;
}

logical_tensor data_tensor(size_t id, data_type type, const sizes &ncx,
        const layout &l, bool output) {
    sizes dims = ncx;
    std::vector<size_t> other = in_order(dims.size());
    if (l.data_format == "NXC") {
        std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
        // N, C, X in memory.
        std::rotate(other.begin() + 1, other.end() - 1, other.end());
    } else {
        std::rotate(other.begin() + 1, other.begin() + 2, other.end());
    }
    return arranged(id, type, dims, l.how, output, other);
}

logical_tensor weights_tensor(size_t id, data_type type, const sizes &oix,
        const layout &l, bool output) {
    sizes dims = oix;
    std::vector<size_t> other = in_order(dims.size());
    std::rotate(other.begin(), other.begin() + 2, other.end());
    if (l.weights_format == "XIO") {
        dims.assign(oix.begin() + 2, oix.end());
        dims.push_back(oix[1]);
        dims.push_back(oix[0]);
        const size_t rank = dims.size();
        other = in_order(rank);
        std::rotate(other.begin(), other.begin() + static_cast<long>(rank) - 2,
                other.end());
        std::swap(other[0], other[1]);
    } else {
        std::swap(other[other.size() - 2], other[other.size() - 1]);
    }
    // Weights have no batch to broadcast along.
    const auto how
            = l.how == arrangement::broadcast ? arrangement::dense : l.how;
    return arranged(id, type, dims, how, output, other);
}

namespace {

sizes with_channels(int64_t n, int64_t c, const sizes &space) {
    sizes dims {n, c};
    dims.insert(dims.end(), space.begin(), space.end());
    return dims;
}

} // namespace

op interpolation_op(const interpolation_case &c,
        const interpolation_choice &choice, const layout &l, data_type type) {
    const auto spatial_rank = static_cast<int64_t>(c.src.size());
    std::vector<logical_tensor> inputs {
            data_tensor(0, type, with_channels(c.n, c.c, c.src), l, false)};
    if (!choice.forward)
        inputs.push_back(
                data_tensor(1, type, with_channels(c.n, c.c, c.dst), l, false));
    if (choice.source == size_source::sizes_input)
        inputs.emplace_back(
                2, data_type::s32, sizes {spatial_rank}, layout_type::strided);
    op result(0,
            choice.forward ? op::kind::Interpolate
                           : op::kind::InterpolateBackward,
            inputs,
            {data_tensor(3, type,
                    with_channels(c.n, c.c, choice.forward ? c.dst : c.src), l,
                    true)},
            c.name);
    if (choice.mode == "cubic")
        result.set_attr(op::attr::cubic_coeff_a, choice.cubic_coeff_a);
    if (choice.antialias) result.set_attr(op::attr::antialias, true);
    if (choice.exclude_outside)
        result.set_attr(op::attr::exclude_outside, true);
    result.set_attr(op::attr::mode, choice.mode);
    result.set_attr(
            op::attr::coordinate_transformation_mode, choice.coordinates);
    result.set_attr(op::attr::data_format, l.data_format);
    if (choice.source == size_source::sizes_attribute)
        result.set_attr(op::attr::sizes, c.dst);
    if (choice.source == size_source::scales_attribute) {
        std::vector<float> scales;
        for (size_t axis = 0; axis < c.src.size(); ++axis)
            scales.push_back(static_cast<float>(static_cast<double>(c.dst[axis])
                    / static_cast<double>(c.src[axis])));
        result.set_attr(op::attr::scales, scales);
    }
    return result;
}

wanted_outputs outputs_of(const std::string &kernel, data_type type) {
    wanted_outputs wanted;
    if (kernel == "convolution.gpu_wide_weights") {
        wanted.diff_src = false;
        wanted.f32_gradients = type == data_type::bf16;
    }
    return wanted;
}

op convolution_op(op::kind kind, const convolution_case &c, const layout &l,
        data_type type, const wanted_outputs &wanted) {
    const bool transposed = kind == op::kind::ConvTransposeBackward
            || kind == op::kind::ConvTransposeBackwardData
            || kind == op::kind::ConvTransposeBackwardWeights;
    const sizes large = with_channels(c.n, c.large_channels, c.large);
    const sizes small = with_channels(c.n, c.small_channels, c.small());
    const sizes weights = with_channels(
            c.small_channels, c.large_channels / c.groups, c.kernel);
    const sizes &src = transposed ? small : large;
    const sizes &dst = transposed ? large : small;
    const data_type gradients = wanted.f32_gradients ? data_type::f32 : type;

    const auto src_in = data_tensor(0, type, src, l, false);
    const auto diff_dst = data_tensor(1, type, dst, l, false);
    const auto weights_in = weights_tensor(2, type, weights, l, false);
    const auto diff_src = data_tensor(3, type, src, l, true);
    const auto diff_weights = weights_tensor(4, gradients, weights, l, true);
    const auto diff_bias = l.how == arrangement::any
            ? logical_tensor(5, gradients, sizes {dst[1]}, layout_type::any)
            : logical_tensor(5, gradients, sizes {dst[1]},
                    sizes {l.how == arrangement::padded ? 3 : 1});

    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;
    switch (kind) {
        case op::kind::ConvolutionBackwardData:
        case op::kind::ConvTransposeBackwardData:
            inputs = {diff_dst, weights_in};
            outputs = {diff_src};
            break;
        case op::kind::ConvolutionBackwardWeights:
        case op::kind::ConvTransposeBackwardWeights:
            inputs = {src_in, diff_dst};
            outputs = {diff_weights};
            break;
        default:
            inputs = {diff_dst, src_in, weights_in};
            outputs = {wanted.diff_src ? diff_src : logical_tensor(),
                    wanted.diff_weights ? diff_weights : logical_tensor(),
                    wanted.diff_bias ? diff_bias : logical_tensor()};
    }
    op result(0, kind, inputs, outputs, c.name);
    result.set_attr(op::attr::strides, c.strides);
    result.set_attr(op::attr::dilations, c.dilations);
    result.set_attr(op::attr::pads_begin, c.pads_begin);
    result.set_attr(op::attr::pads_end, c.pads_end);
    result.set_attr(op::attr::auto_pad, c.auto_pad);
    result.set_attr(op::attr::groups, c.groups);
    result.set_attr(op::attr::data_format, l.data_format);
    const std::string transposed_format
            = l.weights_format == "OIX" ? "IOX" : "XOI";
    result.set_attr(op::attr::weights_format,
            transposed ? transposed_format : l.weights_format);
    if (transposed || kind == op::kind::ConvolutionBackwardData)
        result.set_attr(op::attr::output_padding, c.output_padding());
    return result;
}

const std::vector<op::kind> &convolution_kinds() {
    static const std::vector<op::kind> kinds {
            op::kind::ConvBackward,
            op::kind::ConvTransposeBackward,
            op::kind::ConvTransposeBackwardData,
            op::kind::ConvTransposeBackwardWeights,
            op::kind::ConvolutionBackwardData,
            op::kind::ConvolutionBackwardWeights,
    };
    return kinds;
}

op plane_op(op::kind kind, const plane_case &c, const layout &l, data_type type,
        bool f32_gradients) {
    const auto in = [&](size_t id) {
        return data_tensor(id, type, c.dims, l, false);
    };
    if (kind != op::kind::BiasAddBackward)
        return {0, kind, {in(0), in(1)},
                {data_tensor(2, type, c.dims, l, true)}, c.name};
    const data_type gradient = f32_gradients ? data_type::f32 : type;
    const auto diff_bias = l.how == arrangement::any
            ? logical_tensor(2, gradient, sizes {c.dims[1]}, layout_type::any)
            : logical_tensor(2, gradient, sizes {c.dims[1]},
                    sizes {l.how == arrangement::padded ? 3 : 1});
    op result(0, kind, {in(0)}, {diff_bias}, c.name);
    result.set_attr(op::attr::data_format, l.data_format);
    return result;
}

const std::vector<data_type> &float_types() {
    static const std::vector<data_type> types {
            data_type::f32, data_type::bf16, data_type::f16, data_type::f64};
    return types;
}

bool thinned_out(ptrdiff_t index, data_type type) {
    const auto &types = float_types();
    return thinned()
            && types[static_cast<size_t>(index) % types.size()] != type;
}

} // namespace gradnn::test
