// Kernels that start beside the end of the work ahead of them on their stream
// (src/gpu/device/early_start.cuh): each reads a tensor that the kernel just ahead of
// it writes, another one every turn, and nobody waits in between.
#include <memory>
#include <string>
#include <vector>

#include "support/gpu.hpp"
#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr size_t turns = 8;
constexpr int rounds = 12;

/// An op, and the input (NCX dims) that the kernel ahead of it writes.
struct consumer {
    std::string name;
    op the_op;
    size_t port;
    sizes dims;
};

consumer interpolation(const std::string &name, int64_t n, int64_t channels,
        const sizes &src, const sizes &dst, const layout &l, data_type type) {
    sizes dims {n, channels};
    dims.insert(dims.end(), dst.begin(), dst.end());
    return {name, interpolation_op({name, n, channels, src, dst}, {}, l, type),
            1, dims};
}

consumer backward_data(const std::string &name, int64_t groups,
        int64_t channels, int64_t outputs, const sizes &space,
        const sizes &kernel, const layout &l, data_type type) {
    const sizes ones(kernel.size(), 1);
    sizes pads;
    for (const int64_t size : kernel)
        pads.push_back(size / 2);
    sizes dims {8, outputs};
    dims.insert(dims.end(), space.begin(), space.end());
    const convolution_case c {name, 8, groups, channels, outputs, space, kernel,
            ones, ones, pads, pads};
    return {name, convolution_op(op::kind::ConvolutionBackwardData, c, l, type),
            0, dims};
}

std::vector<consumer> consumers(const layout &l, data_type type) {
    const sizes plane {8, 33, 57, 61};
    const sizes space {40, 56};
    return {interpolation("up_2x", 8, 32, {40, 48}, {80, 96}, l, type),
            interpolation("ragged", 8, 32, {41, 47}, {77, 99}, l, type),
            interpolation("odd_channels", 4, 257, {20, 21}, {41, 43}, l, type),
            interpolation("odd_channels", 8, 33, {40, 48}, {80, 96}, l, type),
            interpolation("pixels", 8, 3, {40, 48}, {80, 96}, l, type),
            interpolation("up_16x", 4, 21, {9, 9}, {144, 144}, l, type),
            interpolation("tiny", 64, 256, {7, 7}, {14, 14}, l, type),
            interpolation("volume", 2, 16, {9, 10, 11}, {19, 20, 21}, l, type),
            {"bias",
                    plane_op(op::kind::BiasAddBackward, {"bias", plane}, l,
                            type),
                    0, plane},
            backward_data("dense", 1, 24, 40, space, {3, 3}, l, type),
            backward_data("first_layer", 1, 3, 32, space, {7, 7}, l, type),
            backward_data("depthwise", 34, 34, 34, space, {3, 3}, l, type),
            backward_data("depthwise_7x7", 32, 32, 32, space, {7, 7}, l, type),
            backward_data("depthwise_lines", 34, 34, 34, {2000}, {31}, l, type),
            backward_data("depthwise_3d", 34, 34, 34, {6, 20, 24}, {3, 3, 3}, l,
                    type),
            backward_data("pointwise", 1, 21, 40, space, {1, 1}, l, type),
            backward_data("narrow_groups", 8, 32, 64, space, {3, 3}, l, type)};
}

struct early_start_param {
    layout how;
    data_type type;
};

class gpu_early_start : public gpu_fixture,
                        public testing::WithParamInterface<early_start_param> {
};

TEST_P(gpu_early_start, reads_what_the_kernel_ahead_has_written) {
    const engine gpu = shared_engine(engine::kind::gpu);
    const auto &[how, type] = GetParam();
    for (const consumer &each : consumers(how, type)) {
        SCOPED_TRACE(each.name);
        op_run reader(each.the_op, gpu, random_inputs(each.the_op, 3));
        const op add
                = plane_op(op::kind::Add, {each.name, each.dims}, how, type);
        std::vector<std::unique_ptr<op_run>> writers;
        for (size_t turn = 0; turn < turns; ++turn)
            writers.push_back(std::make_unique<op_run>(
                    add, gpu, random_inputs(add, 100 + turn)));
        // The sum goes to the reader's input.
        const tensor sum(
                writers.front()->output_tensors().front().get_logical_tensor(),
                gpu, reader.input_tensor(each.port).data());
        const auto write = [&](size_t turn, stream &s) {
            const op_run &writer = *writers[turn];
            writer.compiled().execute(s, writer.input_tensors(), {sum});
        };

        stream s(gpu);
        std::vector<bytes> expected;
        for (size_t turn = 0; turn < turns; ++turn) {
            write(turn, s);
            s.wait();
            reader.execute(s);
            s.wait();
            expected.push_back(reader.all_output_bytes());
        }
        ASSERT_NE(expected[0], expected[1]); // the inputs are not the same

        const logical_tensor out
                = reader.output_tensors().front().get_logical_tensor();
        std::vector<std::unique_ptr<test_tensor>> results;
        for (size_t turn = 0; turn < turns; ++turn)
            results.push_back(std::make_unique<test_tensor>(
                    out, gpu, test_tensor::role::output));
        for (int round = 0; round < rounds; ++round) {
            for (const auto &result : results)
                result->poison();
            for (size_t turn = 0; turn < turns; ++turn) {
                write(turn, s);
                reader.compiled().execute(
                        s, reader.input_tensors(), {results[turn]->get()});
            }
            s.wait();
            for (size_t turn = 0; turn < turns; ++turn)
                ASSERT_EQ(results[turn]->element_bytes(), expected[turn])
                        << "round " << round << ", turn " << turn;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(layouts, gpu_early_start,
        testing::Values(early_start_param {layouts()[0], data_type::f32},
                early_start_param {layouts()[1], data_type::f32},
                early_start_param {layouts()[0], data_type::bf16},
                early_start_param {layouts()[1], data_type::bf16}),
        [](const auto &each) {
            return each.param.how.name + "_"
                    + std::string(to_string(each.param.type));
        });

} // namespace
} // namespace gradnn::test
