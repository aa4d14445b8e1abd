// Convolutions whose strides, dilations and pads are far larger than their
// tensors: near 2^31, 2^32 and the largest that is allowed, on every kernel,
// against the float64 reference.
#include <algorithm>

#include <gtest/gtest.h>

#include "kernel/convolution_window.hpp"
#include "support/op_builders.hpp"
#include "support/random_cases.hpp"

namespace gradnn::test {
namespace {

/// Near a power of two that some integer ends at, or small.
int64_t absurd(random_source &numbers) {
    const int64_t kind = numbers.integer(0, 6);
    if (kind < 2) return numbers.integer(1, 4);
    const std::vector<int64_t> bits {20, 22, 31, 32, 33};
    const int64_t power = int64_t {1} << numbers.pick(bits);
    if (kind == 6) return (int64_t {1} << 40) - numbers.integer(0, 2);
    return std::max<int64_t>(1, power + numbers.integer(-2, 2));
}

/// One axis of a convolution: sizes of a few elements, and pads that let
/// position `y` and point `k` of the window meet element `x`, if any.
struct axis_choice {
    int64_t large, kernel, small, stride, dilation, pad_begin;

    int64_t pad_end() const {
        return (small - 1) * stride + (kernel - 1) * dilation + 1 - large
                - pad_begin;
    }
};

axis_choice random_axis(random_source &numbers) {
    constexpr int64_t most = int64_t {1} << 40;
    while (true) {
        axis_choice axis {};
        axis.large = numbers.integer(1, 9);
        axis.kernel = numbers.integer(1, 3);
        axis.small = numbers.integer(1, 4);
        axis.stride = absurd(numbers);
        axis.dilation
                = numbers.integer(0, 3) == 0 ? axis.stride : absurd(numbers);
        const int64_t y = numbers.integer(0, axis.small - 1);
        const int64_t k = numbers.integer(0, axis.kernel - 1);
        const int64_t x = numbers.integer(-1, axis.large);
        axis.pad_begin = y * axis.stride + k * axis.dilation - x;
        if (std::abs(axis.pad_begin) <= most
                && std::abs(axis.pad_end()) <= most)
            return axis;
    }
}

convolution_case absurd_case(random_source &numbers) {
    convolution_case c {
            "absurd", numbers.integer(1, 3), 1, 1, 1, {}, {}, {}, {}, {}, {}};
    c.groups = numbers.pick(sizes {1, 1, 2, 8});
    c.large_channels = c.groups * numbers.pick(sizes {1, 3, 4, 16});
    c.small_channels = c.groups * numbers.pick(sizes {1, 2, 4, 16});
    const int64_t rank = numbers.integer(1, 3);
    for (int64_t i = 0; i < rank; ++i) {
        const axis_choice axis = random_axis(numbers);
        c.large.push_back(axis.large);
        c.kernel.push_back(axis.kernel);
        c.strides.push_back(axis.stride);
        c.dilations.push_back(axis.dilation);
        c.pads_begin.push_back(axis.pad_begin);
        c.pads_end.push_back(axis.pad_end());
    }
    return c;
}

class absurd_attributes : public testing::TestWithParam<engine::kind> {};

TEST_P(absurd_attributes, random) {
    random_source numbers(printed_seed() + 5);
    for (int round = 0; round < (thinned() ? 200 : 1500); ++round) {
        const convolution_case c = absurd_case(numbers);
        const op::kind kind = numbers.pick(convolution_kinds());
        const layout &l = layouts()[static_cast<size_t>(numbers.integer(0, 3))];
        const data_type type = numbers.pick(float_types());
        std::vector<std::string> kernels
                = kernel_names(GetParam(), "convolution");
        kernels.emplace_back();
        const std::string kernel = numbers.pick(kernels);
        SCOPED_TRACE(testing::Message()
                << "seed " << printed_seed() << " round " << round << " "
                << to_string(kind) << " " << to_string(type) << " " << l.name
                << " kernel " << kernel << " large "
                << testing::PrintToString(c.large) << " channels "
                << c.large_channels << " " << c.small_channels << " groups "
                << c.groups << " window " << testing::PrintToString(c.kernel)
                << " strides " << testing::PrintToString(c.strides)
                << " dilations " << testing::PrintToString(c.dilations)
                << " pads " << testing::PrintToString(c.pads_begin)
                << testing::PrintToString(c.pads_end));
        run_forced(convolution_op(kind, c, l, type), shared_engine(GetParam()),
                kernel, numbers.bits());
        if (HasFailure()) return;
    }
}

// The faults that were found first, on every kernel.
TEST_P(absurd_attributes, named) {
    const int64_t p32 = int64_t {1} << 32;
    const std::vector<convolution_case> cases {
            {"dilation_beyond_32_bits", 2, 1, 32, 48, {5}, {3}, {1}, {p32 + 2},
                    {2 * p32 + 1}, {0}},
            {"stride_beyond_32_bits", 2, 1, 17, 33, {2}, {2}, {p32 + 2}, {1},
                    {1}, {p32 + 2}},
            {"dilations_of_2_to_22", 1, 1, 1, 1, {7, 7, 7}, {2, 2, 2},
                    {1, 1, 1}, {4194303, 4194303, 1048575}, {0, 0, 0},
                    {4194304, 4194304, 1048576}},
            {"dilations_of_2_to_32", 2, 1, 3, 4, {7, 7}, {2, 2}, {1, 1},
                    {p32 - 1, p32 - 1}, {0, 0}, {p32 - 1, p32 - 1}},
            // Two pairs of position and point meet src: nothing to simplify.
            {"stride_and_dilation_alike", 2, 2, 4, 6, {5}, {2}, {p32 + 2},
                    {p32 + 2}, {p32}, {p32}},
            {"beside_src", 2, 1, 3, 4, {6, 6}, {3, 3}, {1, 1}, {1, 1},
                    {-p32, 2}, {p32 + 2, 2}},
    };
    for (const convolution_case &c : cases)
        for (const op::kind kind : convolution_kinds())
            for (const data_type type : {data_type::f32, data_type::f16})
                for (const layout &l : {layouts()[0], layouts()[1]})
                    for (const std::string &kernel :
                            kernel_names(GetParam(), "convolution")) {
                        SCOPED_TRACE(c.name + " " + to_string(kind) + " "
                                + l.name + " " + kernel);
                        run_forced(convolution_op(kind, c, l, type),
                                shared_engine(GetParam()), kernel, 1);
                    }
}

INSTANTIATE_TEST_SUITE_P(engines, absurd_attributes,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

// What simplify_windows leaves is the same convolution, by its definition.
TEST(simplified_windows, same_pairs_meet) {
    random_source numbers(printed_seed() + 6);
    int small = 0;
    for (int round = 0; round < 20000; ++round) {
        const axis_choice axis = random_axis(numbers);
        detail::convolution_problem problem;
        problem.src.dims = {1, 1, 1, 1, axis.large};
        problem.dst.dims = {1, 1, 1, 1, axis.small};
        problem.weights.dims = {1, 1, 1, 1, 1, axis.kernel};
        problem.strides[2] = axis.stride;
        problem.dilations[2] = axis.dilation;
        problem.pads_begin[2] = axis.pad_begin;
        const bool meets = detail::simplify_windows(problem);
        if (detail::windows_fit(problem, 1 << 10)) ++small;
        bool any = false;
        for (int64_t y = 0; y < axis.small; ++y)
            for (int64_t k = 0; k < axis.kernel; ++k) {
                const auto inside
                        = [&](int64_t x) { return x >= 0 && x < axis.large; };
                const int64_t before
                        = y * axis.stride + k * axis.dilation - axis.pad_begin;
                const int64_t after = y * problem.strides[2]
                        + k * problem.dilations[2] - problem.pads_begin[2];
                any = any || inside(before);
                if (!meets) continue;
                ASSERT_EQ(inside(before), inside(after)) << "round " << round;
                if (inside(before)) {
                    ASSERT_EQ(before, after) << "round " << round;
                }
            }
        if (!meets) {
            ASSERT_FALSE(any) << "round " << round;
        }
    }
    EXPECT_GT(small, 10000);
}

} // namespace
} // namespace gradnn::test
