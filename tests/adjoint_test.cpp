// The adjoint identity <forward(x), y> = <x, backward(y)>, with random shapes.
//
// The forward is the tests' own. GRADNN_TEST_SEED repeats a run.
#include <cmath>
#include <iostream>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "support/forward.hpp"
#include "support/op_builders.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

uint64_t seed() {
    static const uint64_t value = [] {
        const uint64_t chosen = test_seed(std::random_device()());
        std::cout << "seed " << chosen
                  << " (GRADNN_TEST_SEED=" << chosen << " repeats it)\n";
        return chosen;
    }();
    return value;
}

double dot(const std::vector<double> &a, const std::vector<double> &b) {
    EXPECT_EQ(a.size(), b.size());
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double magnitude(const std::vector<double> &a, const std::vector<double> &b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
        sum += std::fabs(a[i] * b[i]);
    return sum;
}

/// <a, b> = <c, d> to the precision of f64 sums of such terms.
void expect_equal_products(const std::vector<double> &a,
        const std::vector<double> &b, const std::vector<double> &c,
        const std::vector<double> &d) {
    const double bound
            = 1e-12 * (magnitude(a, b) + magnitude(c, d)) + 1e-300;
    EXPECT_NEAR(dot(a, b), dot(c, d), bound);
}

class adjoint : public testing::TestWithParam<engine::kind> {};

sizes random_sizes(
        random_source &numbers, size_t rank, int64_t low, int64_t high) {
    sizes result(rank);
    for (int64_t &size : result)
        size = numbers.integer(low, high);
    return result;
}

TEST_P(adjoint, interpolation) {
    const engine e = shared_engine(GetParam());
    random_source numbers(seed());
    const int rounds = thinned() ? 40 : 200;
    for (int round = 0; round < rounds; ++round) {
        const auto rank = static_cast<size_t>(numbers.integer(1, 3));
        const int64_t most = rank == 1 ? 60 : rank == 2 ? 17 : 8;
        const interpolation_case c {"random", numbers.integer(1, 3),
                numbers.integer(1, 9), random_sizes(numbers, rank, 1, most),
                random_sizes(numbers, rank, 1, 2 * most)};
        const std::string mode
                = numbers.pick(std::vector<std::string> {"nearest", "linear"});
        const std::string coordinates = numbers.pick(std::vector<std::string> {
                "half_pixel", "align_corners", "asymmetric"});
        const std::string kernel
                = numbers.pick(kernel_names(GetParam(), "interpolation"));
        SCOPED_TRACE("seed " + std::to_string(seed()) + ", round "
                + std::to_string(round) + ", " + mode + " " + coordinates + " "
                + kernel);
        const op the_op = interpolation_op(
                c, {mode, coordinates}, layouts()[0], data_type::f64);
        const forced_kernel forced(kernel);
        const values_list inputs = random_inputs(the_op, numbers.bits());
        std::optional<op_run> r;
        try {
            r.emplace(the_op, e, inputs);
        } catch (const error &refusal) {
            ASSERT_EQ(refusal.status, status::unimplemented) << refusal.what();
            continue;
        }
        r->execute();
        const auto x = numbers.values(inputs[0].size());
        expect_equal_products(forward_interpolation(c, mode, coordinates, x),
                inputs[1], x, r->output(0));
        if (HasFailure()) return;
    }
}

convolution_case random_convolution(random_source &numbers) {
    const auto rank = static_cast<size_t>(numbers.integer(1, 3));
    const int64_t groups = numbers.integer(1, 3);
    convolution_case c {"random", numbers.integer(1, 2), groups,
            groups * numbers.integer(1, 5), groups * numbers.integer(1, 5), {},
            random_sizes(numbers, rank, 1, rank == 3 ? 3 : 5),
            random_sizes(numbers, rank, 1, 4), random_sizes(numbers, rank, 1, 3),
            random_sizes(numbers, rank, -2, 4),
            random_sizes(numbers, rank, -2, 4)};
    if (numbers.integer(0, 3) == 0)
        c.auto_pad = numbers.pick(std::vector<std::string> {
                "same_upper", "same_lower", "valid"});
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t reach = (c.kernel[axis] - 1) * c.dilations[axis] + 1;
        const int64_t pads = c.auto_pad == "none"
                ? c.pads_begin[axis] + c.pads_end[axis]
                : 0;
        c.large.push_back(std::max<int64_t>(1,
                reach - pads + numbers.integer(0, rank == 3 ? 5 : 12)));
    }
    return c;
}

TEST_P(adjoint, convolution) {
    const engine e = shared_engine(GetParam());
    random_source numbers(seed() + 1);
    const int rounds = thinned() ? 30 : 150;
    for (int round = 0; round < rounds; ++round) {
        const convolution_case c = random_convolution(numbers);
        const bool transposed = numbers.integer(0, 1) == 1;
        const std::string kernel
                = numbers.pick(kernel_names(GetParam(), "convolution"));
        SCOPED_TRACE("seed " + std::to_string(seed()) + ", round "
                + std::to_string(round) + ", "
                + (transposed ? "transposed " : "") + kernel);
        // A transposed convolution with auto_pad has src * stride outputs.
        convolution_case shape = c;
        if (transposed && c.auto_pad.rfind("same", 0) == 0)
            for (size_t axis = 0; axis < c.large.size(); ++axis)
                shape.large[axis] = c.small()[axis] * c.strides[axis];
        const op the_op = convolution_op(transposed
                        ? op::kind::ConvTransposeBackward
                        : op::kind::ConvBackward,
                shape, layouts()[0], data_type::f64);
        const forced_kernel forced(kernel);
        const values_list inputs = random_inputs(the_op, numbers.bits());
        std::optional<op_run> r;
        try {
            r.emplace(the_op, e, inputs);
        } catch (const error &refusal) {
            ASSERT_EQ(refusal.status, status::unimplemented) << refusal.what();
            continue;
        }
        r->execute();
        const auto &diff_dst = inputs[0];
        const auto &src = inputs[1];
        const auto &weights = inputs[2];
        const auto forward
                = transposed ? forward_transposed : forward_convolution;
        const auto x = numbers.values(src.size());
        expect_equal_products(
                forward(shape, x, weights), diff_dst, x, r->output(0));
        const auto w = numbers.values(weights.size());
        expect_equal_products(
                forward(shape, src, w), diff_dst, w, r->output(1));
        // forward of the bias: every element of a channel is its value.
        const auto diff_bias = r->output(2);
        const auto b = numbers.values(diff_bias.size());
        std::vector<double> spread(diff_dst.size());
        const size_t plane = diff_dst.size()
                / (static_cast<size_t>(shape.n) * diff_bias.size());
        for (size_t i = 0; i < spread.size(); ++i)
            spread[i] = b[i / plane % b.size()];
        expect_equal_products(spread, diff_dst, b, diff_bias);
        if (HasFailure()) return;
    }
}

// The same identity for the cases of the suite, which random shapes may miss.
TEST_P(adjoint, named_cases) {
    const engine e = shared_engine(GetParam());
    random_source numbers(5);
    for (const interpolation_case &c : interpolation_cases())
        for (const char *mode : {"nearest", "linear"})
            for (const char *coordinates :
                    {"half_pixel", "align_corners", "asymmetric"}) {
                SCOPED_TRACE(c.name + " " + mode + " " + coordinates);
                const op the_op = interpolation_op(
                        c, {mode, coordinates}, layouts()[0], data_type::f64);
                const values_list inputs = random_inputs(the_op, 9);
                op_run r(the_op, e, inputs);
                r.execute();
                const auto x = numbers.values(inputs[0].size());
                expect_equal_products(
                        forward_interpolation(c, mode, coordinates, x),
                        inputs[1], x, r.output(0));
            }
    for (const convolution_case &c : convolution_cases()) {
        SCOPED_TRACE(c.name);
        const op the_op = convolution_op(op::kind::ConvBackward, c,
                layouts()[0], data_type::f64);
        const values_list inputs = random_inputs(the_op, 10);
        op_run r(the_op, e, inputs);
        r.execute();
        const auto x = numbers.values(inputs[1].size());
        expect_equal_products(forward_convolution(c, x, inputs[2]), inputs[0],
                x, r.output(0));
    }
}

INSTANTIATE_TEST_SUITE_P(engines, adjoint, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
