// Convolutions: the op of a shape that is drawn.
#include "convolution_shape.hpp"

namespace gradnn::fuzz {

namespace {

template <typename Field>
dims field(const convolution_shape &s, const Field &of) {
    dims values;
    for (const window_axis &a : s.axes)
        values.push_back(of(a));
    return values;
}

void set_attrs(graph_builder &graph, op &the_op, const convolution_shape &s,
        const std::string &weights_format) {
    random_source &numbers = graph.numbers();
    the_op.set_attr(op::attr::strides,
            field(s, [](const window_axis &a) { return a.stride; }));
    the_op.set_attr(op::attr::dilations,
            field(s, [](const window_axis &a) { return a.dilation; }));
    the_op.set_attr(op::attr::pads_begin,
            field(s, [](const window_axis &a) { return a.pads_begin; }));
    the_op.set_attr(op::attr::pads_end,
            field(s, [](const window_axis &a) { return a.pads_end; }));
    if (s.auto_pad != "none" || happens(numbers, 20))
        the_op.set_attr(op::attr::auto_pad, s.auto_pad);
    if (s.groups != 1 || happens(numbers, 30))
        the_op.set_attr(op::attr::groups, s.groups);
    if (graph.data_format() == "NCX" || happens(numbers, 70))
        the_op.set_attr(op::attr::data_format, graph.data_format());
    the_op.set_attr(op::attr::weights_format, weights_format);
}

} // namespace

logical_tensor add_convolution(graph_builder &graph, op::kind kind,
        const logical_tensor *diff_dst, int64_t most_work) {
    random_source &numbers = graph.numbers();
    const bool transposed = is_transposed(kind);
    convolution_shape s = diff_dst
            ? draw_convolution_around(
                    numbers, graph, diff_dst->get_dims(), transposed)
            : draw_convolution(numbers, transposed, most_work);
    if (!diff_dst && s.auto_pad == "none" && happens(numbers, 1)) {
        exceed_limits(numbers, s);
        graph.result.may_refuse = true;
    }
    const dims large = graph.data_dims(s.n, s.large_channels,
            field(s, [](const window_axis &a) { return a.large; }));
    const dims small = graph.data_dims(s.n, s.small_channels,
            field(s, [](const window_axis &a) { return a.small; }));
    const bool spatial_first = happens(numbers, 50);
    dims weights = field(s, [](const window_axis &a) { return a.kernel; });
    const int64_t large_width = s.large_channels / s.groups;
    if (spatial_first)
        weights.insert(weights.end(), {large_width, s.small_channels});
    else
        weights.insert(weights.begin(), {s.small_channels, large_width});
    const std::string format = transposed ? (spatial_first ? "XOI" : "IOX")
                                          : (spatial_first ? "XIO" : "OIX");
    const dims &src = transposed ? small : large;
    const logical_tensor gradient
            = diff_dst ? *diff_dst : graph.input(transposed ? large : small);

    const bool of_data = kind == op::kind::ConvolutionBackwardData
            || kind == op::kind::ConvTransposeBackwardData;
    const bool of_weights = kind == op::kind::ConvolutionBackwardWeights
            || kind == op::kind::ConvTransposeBackwardWeights;
    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;
    if (of_data) {
        inputs = {gradient, graph.input(weights)};
        outputs = {graph.output(src)};
    } else if (of_weights) {
        inputs = {graph.input(src), gradient};
        outputs = {graph.output(weights, graph.gradient_type())};
    } else {
        inputs = {gradient, graph.input(src), graph.input(weights)};
        // diff_src goes on in a graph, and one must be there.
        int64_t wanted = numbers.integer(1, 7);
        if (diff_dst) wanted |= 1;
        const dims bias {transposed ? s.large_channels : s.small_channels};
        outputs = {(wanted & 1) != 0 ? graph.output(src) : logical_tensor(),
                (wanted & 2) != 0 ? graph.output(weights, graph.gradient_type())
                                  : logical_tensor(),
                (wanted & 4) != 0 ? graph.output(bias, graph.gradient_type())
                                  : logical_tensor()};
    }
    const bool has_shape = kind != op::kind::ConvTransposeBackwardData
            && (of_data || of_weights);
    const bool by_input = has_shape && happens(numbers, 15);
    if (by_input) inputs.push_back(graph.shape_input(src.size()));
    op &the_op = graph.add(kind, inputs, outputs);
    set_attrs(graph, the_op, s, format);
    if (has_shape && happens(numbers, 20))
        the_op.set_attr(of_data ? op::attr::dst_shape : op::attr::weights_shape,
                of_data ? src : weights);
    const dims rest = field(s, [](const window_axis &a) { return a.rest; });
    const bool same = s.auto_pad.rfind("same", 0) == 0;
    const bool may_pad_output
            = kind == op::kind::ConvolutionBackwardData && happens(numbers, 40);
    if (!same && (transposed || may_pad_output))
        the_op.set_attr(op::attr::output_padding, rest);
    return of_weights ? logical_tensor() : outputs[0];
}

} // namespace gradnn::fuzz
