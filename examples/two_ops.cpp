// A graph of two ops: the backward pass of a 2x bilinear upsample and the 3x3
// convolution behind it. They become one partition, which keeps the tensor between
// them in its workspace, in a layout of the library's choice.
// examples/graphs/two_ops.json is the same graph as a file. GRADNN_GRAPH_DUMP=FOLDER
// makes this program write it.
#include <gradnn/gradnn.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

using namespace gradnn;
using lt = logical_tensor;
using list = std::vector<int64_t>;

int main() {
    const auto dense = [](size_t id, const lt::dims &dims) {
        return lt(id, lt::data_type::f32, dims, lt::layout_type::strided);
    };
    const lt diff_out = dense(0, {1, 4, 32, 32});
    const lt weights = dense(1, {4, 8, 3, 3});
    const lt diff_up(
            2, lt::data_type::f32, {1, 8, 32, 32}, lt::layout_type::any);
    const lt src = dense(3, {1, 8, 16, 16});
    const lt diff_src = dense(4, {1, 8, 16, 16});

    op conv(0, op::kind::ConvolutionBackwardData, {diff_out, weights},
            {diff_up}, "conv");
    conv.set_attr<list>(op::attr::strides, {1, 1});
    conv.set_attr<list>(op::attr::pads_begin, {1, 1});
    conv.set_attr<list>(op::attr::pads_end, {1, 1});
    conv.set_attr<list>(op::attr::dilations, {1, 1});
    conv.set_attr<std::string>(op::attr::data_format, "NCX");
    conv.set_attr<std::string>(op::attr::weights_format, "OIX");
    op up(1, op::kind::InterpolateBackward, {src, diff_up}, {diff_src}, "up");
    up.set_attr<std::string>(op::attr::mode, "bilinear");
    up.set_attr<list>(op::attr::sizes, {32, 32});
    up.set_attr<std::string>(op::attr::data_format, "NCX");

    graph g(engine::kind::cpu);
    g.add_op(up); // in any order
    g.add_op(conv);
    g.finalize();

    const engine cpu(engine::kind::cpu, 0);
    stream queue(cpu);
    const compiled_partition both = g.get_partitions().at(0).compile(
            {diff_out, weights, src}, {diff_src}, cpu);
    std::vector<float> given(4 * 32 * 32, 1.0F), taps(4 * 8 * 9, 0.25F);
    std::vector<float> result(8 * 16 * 16);
    // Of src only the shape counts.
    both.execute(queue,
            {tensor(diff_out, cpu, given.data()),
                    tensor(weights, cpu, taps.data()),
                    tensor(src, cpu, nullptr)},
            {tensor(diff_src, cpu, result.data())});
    for (const step_info &step : both.get_info().steps)
        std::printf("op %zu: %s\n", step.op_id, step.kernel.c_str());

    // In the middle: 4 channels x 9 taps of 0.25, and each element of src stands for 4.
    const float middle = result[8 * 16 + 8];
    std::printf("diff_src in the middle: %g\n", middle);
    return middle == 36 ? 0 : 1;
}
