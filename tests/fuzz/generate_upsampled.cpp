// Upsampled by nearest and convolved: what may be composed to one convolution.
#include "generate.hpp"

namespace gradnn::fuzz {

void add_upsampled_convolution(graph_builder &graph) {
    random_source &numbers = graph.numbers();
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    const int64_t groups = happens(numbers, 75) ? 1 : numbers.integer(2, 3);
    const int64_t n = numbers.integer(1, 3);
    const int64_t channels = groups * numbers.integer(1, 20);
    const int64_t outputs = groups * numbers.integer(1, 20);
    dims small, large, kernel, begin, end, out;
    for (size_t axis = 0; axis < rank; ++axis) {
        small.push_back(numbers.integer(1, rank == 3 ? 5 : 24));
        large.push_back(small.back() * numbers.integer(1, rank == 3 ? 2 : 4));
        kernel.push_back(numbers.integer(1, 6));
        begin.push_back(numbers.integer(0, kernel.back() + 1));
        end.push_back(numbers.integer(kernel.back() - 1, kernel.back() + 1));
        out.push_back(
                large.back() + begin.back() + end.back() - kernel.back() + 1);
    }
    const bool channels_first = happens(numbers, 50);
    dims weights = kernel;
    weights.insert(channels_first ? weights.begin() : weights.end(),
            {channels_first ? outputs : channels / groups,
                    channels_first ? channels / groups : outputs});
    const int64_t parts = numbers.integer(0, 3); // data, weights or both
    const bool data = parts != 0;
    const bool forward = parts != 1;

    const logical_tensor src = graph.input(graph.data_dims(n, channels, small));
    const dims dims_of_large = graph.data_dims(n, channels, large);
    const logical_tensor upsampled = forward ? graph.output(dims_of_large)
                                             : graph.input(dims_of_large);
    const auto resize = [&](op &the_op) {
        the_op.set_attr(op::attr::mode, std::string("nearest"));
        the_op.set_attr(op::attr::sizes, large);
        the_op.set_attr(op::attr::data_format, graph.data_format());
    };
    if (forward) resize(graph.add(op::kind::Interpolate, {src}, {upsampled}));
    const data_type type = graph.gradient_type();
    const logical_tensor absent;
    const logical_tensor gradient = data ? graph.output(dims_of_large) : absent;
    op &convolution = graph.add(op::kind::ConvBackward,
            {graph.input(graph.data_dims(n, outputs, out)), upsampled,
                    graph.input(weights)},
            {gradient,
                    forward || happens(numbers, 50)
                            ? graph.output(weights, type)
                            : absent,
                    happens(numbers, 50) ? graph.output({outputs}, type)
                                         : absent});
    convolution.set_attr(op::attr::strides, dims(rank, 1));
    convolution.set_attr(op::attr::dilations, dims(rank, 1));
    convolution.set_attr(op::attr::pads_begin, begin);
    convolution.set_attr(op::attr::pads_end, end);
    convolution.set_attr(op::attr::groups, groups);
    convolution.set_attr(op::attr::data_format, graph.data_format());
    convolution.set_attr(op::attr::weights_format,
            std::string(channels_first ? "OIX" : "XIO"));
    if (data)
        resize(graph.add(op::kind::InterpolateBackward, {src, gradient},
                {graph.output(graph.data_dims(n, channels, small))}));
}

} // namespace gradnn::fuzz
