// Random shapes, attributes, data types, layouts and kernels, against the
// float64 reference. GRADNN_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/random_cases.hpp"

namespace gradnn::test {
namespace {

class random_ops : public testing::TestWithParam<engine::kind> {
protected:
    /// Of the kernels whose names contain `part`.
    void run(random_source &numbers, const op &the_op,
            const std::string &problem, const std::string &what,
            const std::string &part = "") const {
        std::vector<std::string> kernels = kernel_names(GetParam(), problem);
        std::erase_if(kernels, [&](const std::string &name) {
            return name.find(part) == std::string::npos;
        });
        kernels.emplace_back(); // the library's choice
        const std::string kernel = numbers.pick(kernels);
        SCOPED_TRACE("seed " + std::to_string(printed_seed()) + " " + what
                + " kernel " + kernel);
        run_forced(the_op, shared_engine(GetParam()), kernel, numbers.bits());
    }
};

std::string text_of(const sizes &values) {
    return testing::PrintToString(values);
}

std::string text_of(const convolution_case &c) {
    return "n " + std::to_string(c.n) + " groups " + std::to_string(c.groups)
            + " channels " + std::to_string(c.large_channels) + " "
            + std::to_string(c.small_channels) + " large " + text_of(c.large)
            + " kernel " + text_of(c.kernel) + " strides " + text_of(c.strides)
            + " dilations " + text_of(c.dilations) + " pads "
            + text_of(c.pads_begin) + text_of(c.pads_end) + " " + c.auto_pad;
}

TEST_P(random_ops, interpolation) {
    random_source numbers(printed_seed() + 2);
    for (int round = 0; round < (thinned() ? 100 : 500); ++round) {
        const interpolation_case c = random_interpolation(numbers);
        const interpolation_choice choice {
                numbers.pick(std::vector<std::string> {"nearest", "linear"}),
                numbers.pick(std::vector<std::string> {
                        "half_pixel", "align_corners", "asymmetric"}),
                numbers.pick(
                        std::vector<size_source> {size_source::sizes_attribute,
                                size_source::sizes_input})};
        const layout &l = numbers.pick(layouts());
        const data_type type = numbers.pick(float_types());
        run(numbers, interpolation_op(c, choice, l, type), "interpolation",
                "round " + std::to_string(round) + " " + text_of(c.src) + " to "
                        + text_of(c.dst) + " n " + std::to_string(c.n) + " c "
                        + std::to_string(c.c) + " " + choice.mode + " "
                        + choice.coordinates + " " + l.name + " "
                        + to_string(type));
        if (HasFailure()) return;
    }
}

TEST_P(random_ops, convolution) {
    random_source numbers(printed_seed() + 3);
    for (int round = 0; round < (thinned() ? 150 : 800); ++round) {
        convolution_case c = random_convolution(numbers);
        if (numbers.integer(0, 4) == 0) { // depthwise
            c.groups = numbers.integer(1, 40);
            c.large_channels = c.groups;
            c.small_channels = c.groups;
        }
        const op::kind kind = numbers.pick(convolution_kinds());
        const bool transposed = std::string(to_string(kind)).find("Transpose")
                != std::string::npos;
        if (transposed) c = transposable(c);
        const layout &l = numbers.pick(layouts());
        const data_type type = numbers.pick(float_types());
        wanted_outputs wanted;
        wanted.f32_gradients = numbers.integer(0, 1) == 1
                && (type == data_type::bf16 || type == data_type::f16);
        run(numbers, convolution_op(kind, c, l, type, wanted), "convolution",
                "round " + std::to_string(round) + " " + to_string(kind) + " "
                        + text_of(c) + " " + l.name + " " + to_string(type));
        if (HasFailure()) return;
    }
}

// The windows that kernels are made for, of every channel for itself.
TEST_P(random_ops, depthwise) {
    random_source numbers(printed_seed() + 4);
    for (int round = 0; round < (thinned() ? 60 : 300); ++round) {
        const int64_t form = numbers.integer(0, 4);
        const bool line = form == 0; // along the rows alone
        const bool cube = form == 1; // 3x3x3
        const int64_t size = line ? numbers.integer(2, 66)
                : cube            ? 3
                                  : 2 * numbers.integer(1, 3) + 1;
        const int64_t channels = numbers.integer(0, 3) == 0
                ? numbers.integer(1, 20)
                : 8 * numbers.integer(1, 4);
        const int64_t stride = numbers.integer(0, 3) == 0 ? 2 : 1;
        convolution_case c {"random", numbers.integer(1, 4), channels, channels,
                channels, {}, {size, size}, {stride, stride}, {1, 1}, {}, {}};
        if (line) {
            c.kernel = {1, size};
            c.large = {numbers.integer(1, 3)};
            c.pads_begin = c.pads_end = {0};
        }
        if (cube) {
            c.kernel = {3, 3, 3};
            c.strides = c.dilations = {1, 1, 1};
        }
        const int64_t longest = line ? 600 : cube ? 20 : 40;
        for (size_t axis = c.large.size(); axis < c.kernel.size(); ++axis) {
            c.pads_begin.push_back(numbers.integer(0, size - 1));
            c.pads_end.push_back(numbers.integer(0, size - 1));
            c.large.push_back(
                    std::max(size - c.pads_begin[axis] - c.pads_end[axis],
                            numbers.integer(1, longest)));
        }
        const op::kind kind = numbers.pick(convolution_kinds());
        const layout spaced {"spaced_nxc", "NXC", "XIO", arrangement::spaced};
        const layout l = numbers.pick(std::vector<layout> {
                layouts()[0], layouts()[1], layouts()[1], spaced});
        const data_type type = numbers.pick(float_types());
        wanted_outputs wanted;
        wanted.f32_gradients = numbers.integer(0, 3) == 0
                && (type == data_type::bf16 || type == data_type::f16);
        run(numbers, convolution_op(kind, c, l, type, wanted), "convolution",
                "round " + std::to_string(round) + " " + to_string(kind) + " "
                        + text_of(c) + " " + l.name + " " + to_string(type),
                "depthwise");
        if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(engines, random_ops, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
