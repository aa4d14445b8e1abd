// One op on the CPU, with memory that the caller owns: the three gradients of a 3x3
// convolution, compiled once and executed in every step of a training loop.
#include <gradnn/gradnn.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace gradnn;
using lt = logical_tensor;
using list = std::vector<int64_t>;

int main() {
    // 16 images of 8 channels, 32 x 32, to 12 channels. Dense, as PyTorch has them.
    const auto f32 = [](size_t id, const lt::dims &dims) {
        return lt(id, lt::data_type::f32, dims, lt::layout_type::strided);
    };
    const lt diff_dst = f32(0, {16, 12, 32, 32});
    const lt src = f32(1, {16, 8, 32, 32});
    const lt weights = f32(2, {12, 8, 3, 3});
    const lt diff_src = f32(3, {16, 8, 32, 32});
    const lt diff_weights = f32(4, {12, 8, 3, 3});
    const lt diff_bias = f32(5, {12});

    op conv(0, op::kind::ConvBackward, {diff_dst, src, weights},
            {diff_src, diff_weights, diff_bias}, "conv");
    conv.set_attr<list>(op::attr::strides, {1, 1});
    conv.set_attr<list>(op::attr::pads_begin, {1, 1});
    conv.set_attr<list>(op::attr::pads_end, {1, 1});
    conv.set_attr<list>(op::attr::dilations, {1, 1});
    conv.set_attr<std::string>(op::attr::data_format, "NCX");
    conv.set_attr<std::string>(op::attr::weights_format, "OIX");

    // Once: a partition of one op, and kernels for these shapes and layouts.
    const engine cpu(engine::kind::cpu, 0);
    const partition part(conv, engine::kind::cpu);
    const compiled_partition compiled = part.compile(
            {diff_dst, src, weights}, {diff_src, diff_weights, diff_bias}, cpu);
    for (const step_info &step : compiled.get_info().steps)
        std::printf("%-12s by %s\n", step.output.c_str(), step.kernel.c_str());

    // The caller's workspace: so many bytes, at a multiple of 64.
    const size_t bytes = (compiled.get_workspace_size() + 63) / 64 * 64;
    void *workspace = bytes > 0 ? std::aligned_alloc(64, bytes) : nullptr;

    std::vector<float> dy(16 * 12 * 32 * 32, 1.0F), x(16 * 8 * 32 * 32, 2.0F),
            w(12 * 8 * 9, 0.5F), dx(x.size()), dw(w.size()), db(12);
    stream queue(cpu);
    for (int step = 0; step < 3; ++step) // blocks until the outputs are written
        compiled.execute(queue,
                {tensor(diff_dst, cpu, dy.data()), tensor(src, cpu, x.data()),
                        tensor(weights, cpu, w.data())},
                {tensor(diff_src, cpu, dx.data()),
                        tensor(diff_weights, cpu, dw.data()),
                        tensor(diff_bias, cpu, db.data())},
                workspace);
    std::free(workspace);

    // An inner element is met by 12 channels x 9 taps of 0.5; the weights' middle tap
    // meets 16 images of 32 x 32 elements of 2, and so does the bias those of 1.
    const float inner = dx[32 + 1], middle = dw[4], bias = db[0];
    std::printf("diff_src %g, diff_weights %g, diff_bias %g\n", inner, middle,
            bias);
    return inner == 54 && middle == 32768 && bias == 16384 ? 0 : 1;
}
