// Uses an installed gradnn: the gradients of a 2x nearest upsample and of a
// 1x1 convolution, and an error. Exits 0 when the numbers are right.
#include <cstdio>
#include <string>
#include <vector>

#include <gradnn/gradnn.hpp>

using namespace gradnn;
using lt = logical_tensor;

namespace {

lt nchw(size_t id, const lt::dims &dims) {
    return {id, lt::data_type::f32, dims, lt::layout_type::strided};
}

/// Runs a graph of one op on ports that are given in the op's order.
void run(const op &the_op, const std::vector<lt> &inputs,
        const std::vector<lt> &outputs, std::vector<std::vector<float>> &data) {
    graph g(engine::kind::cpu);
    g.add_op(the_op);
    g.finalize();

    const engine cpu(engine::kind::cpu, 0);
    const auto compiled
            = g.get_partitions().front().compile(inputs, outputs, cpu);

    std::vector<tensor> in, out;
    for (const lt &port : inputs)
        in.emplace_back(port, cpu, data[port.get_id()].data());
    for (const lt &port : outputs)
        out.emplace_back(port, cpu, data[port.get_id()].data());
    stream queue(cpu);
    compiled.execute(queue, in, out);
    queue.wait();
}

/// Every output of the upsample copies one input, so each input's gradient is
/// the sum of the four that copy it.
bool upsample_is_right() {
    const std::vector<lt> inputs {nchw(0, {1, 1, 2, 2}), nchw(1, {1, 1, 4, 4})};
    const std::vector<lt> outputs {nchw(2, {1, 1, 2, 2})};
    op upsample(0, op::kind::InterpolateBackward, inputs, outputs, "upsample");
    upsample.set_attr<std::string>(op::attr::mode, "nearest");
    upsample.set_attr<std::string>(op::attr::data_format, "NCX");
    upsample.set_attr<std::vector<int64_t>>(op::attr::sizes, {4, 4});

    std::vector<std::vector<float>> data {std::vector<float>(4),
            std::vector<float>(16, 1.0F), std::vector<float>(4)};
    run(upsample, inputs, outputs, data);
    return data[2] == std::vector<float>(4, 4.0F);
}

/// A 1x1 convolution of 3 channels to 2 with weights 1 and 2: each element of
/// the gradient is 1 + 2.
bool convolution_is_right() {
    const std::vector<lt> inputs {nchw(0, {1, 2, 8, 8}), nchw(1, {2, 3, 1, 1})};
    const std::vector<lt> outputs {nchw(2, {1, 3, 8, 8})};
    op convolution(0, op::kind::ConvolutionBackwardData, inputs, outputs);
    convolution.set_attr<std::vector<int64_t>>(op::attr::strides, {1, 1});
    convolution.set_attr<std::vector<int64_t>>(op::attr::pads_begin, {0, 0});
    convolution.set_attr<std::vector<int64_t>>(op::attr::pads_end, {0, 0});
    convolution.set_attr<std::vector<int64_t>>(op::attr::dilations, {1, 1});
    convolution.set_attr<std::string>(op::attr::data_format, "NCX");
    convolution.set_attr<std::string>(op::attr::weights_format, "OIX");

    std::vector<std::vector<float>> data {std::vector<float>(2 * 64, 1.0F),
            {1, 1, 1, 2, 2, 2}, std::vector<float>(3 * 64)};
    run(convolution, inputs, outputs, data);
    return data[2] == std::vector<float>(3 * 64, 3.0F);
}

/// An exception of the library is caught by its type, outside the library.
bool errors_are_caught() {
    op upsample(0, op::kind::InterpolateBackward,
            {nchw(0, {1, 1, 2, 2}), nchw(1, {1, 1, 4, 4})},
            {nchw(2, {1, 1, 2, 2})}, "upsample");
    upsample.set_attr<std::string>(op::attr::mode, "lanczos");
    try {
        graph(engine::kind::cpu).add_op(upsample);
    } catch (const error &e) {
        return std::string(e.what()).find("lanczos") != std::string::npos;
    }
    return false;
}

} // namespace

int main() {
    const bool right = upsample_is_right() && convolution_is_right()
            && errors_are_caught();
    const version_info library = version();
    std::printf("gradnn %d.%d.%d (headers %d.%d.%d): %s\n", library.major,
            library.minor, library.patch, version_major, version_minor,
            version_patch, right ? "right" : "wrong");
    return right && version_agrees() ? 0 : 1;
}
