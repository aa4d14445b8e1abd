// A graph of two ops: the backward pass of a 2x bilinear upsample and the 3x3
// convolution behind it. The library chooses the layout of the tensor between them.
// examples/graphs/two_ops.json is the same graph as a file. GRADNN_GRAPH_DUMP=FOLDER
// makes this program write it.
#include <gradnn/gradnn.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
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
    std::map<size_t, lt> known; // layouts that the library has chosen
    std::map<size_t, std::vector<float>> memory;
    memory[0].assign(4 * 32 * 32, 1.0F);
    memory[1].assign(4 * 8 * 9, 0.25F);

    // Partitions come in an order in which they can be executed.
    for (const partition &part : g.get_partitions()) {
        std::vector<lt> ins, outs;
        for (const lt &port : part.get_input_ports())
            ins.push_back(
                    known.count(port.get_id()) ? known[port.get_id()] : port);
        for (const lt &port : part.get_output_ports())
            outs.push_back(port);
        const compiled_partition compiled = part.compile(ins, outs, cpu);
        std::vector<tensor> given, written;
        for (const lt &port : ins) {
            const auto found = memory.find(port.get_id());
            given.emplace_back(port, cpu,
                    found == memory.end() ? nullptr : found->second.data());
        }
        for (const lt &port : outs) {
            const lt chosen = compiled.query_logical_tensor(port.get_id());
            known[port.get_id()] = chosen;
            memory[port.get_id()].resize(chosen.get_mem_size() / sizeof(float));
            written.emplace_back(chosen, cpu, memory[port.get_id()].data());
        }
        compiled.execute(queue, given, written);
        std::printf("%s\n", compiled.get_info().steps.front().kernel.c_str());
    }

    // In the middle: 4 channels x 9 taps of 0.25, and each element of src stands for 4.
    const float middle = memory[4][8 * 16 + 8];
    std::printf("diff_src in the middle: %g\n", middle);
    return middle == 36 ? 0 : 1;
}
