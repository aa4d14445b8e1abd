// The adjoint identity <forward(x), y> = <x, backward(y)>, with random shapes.
//
// The forward is the tests' own. GRADNN_TEST_SEED repeats a run.
#include <cmath>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "support/forward.hpp"
#include "support/op_builders.hpp"
#include "support/random_cases.hpp"

namespace gradnn::test {
namespace {

uint64_t seed() {
    return printed_seed();
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
    const double bound = 1e-12 * (magnitude(a, b) + magnitude(c, d)) + 1e-300;
    EXPECT_NEAR(dot(a, b), dot(c, d), bound);
}

class adjoint : public testing::TestWithParam<engine::kind> {};

TEST_P(adjoint, interpolation) {
    const engine e = shared_engine(GetParam());
    random_source numbers(seed());
    const int rounds = thinned() ? 40 : 200;
    for (int round = 0; round < rounds; ++round) {
        const interpolation_case c = random_interpolation(numbers);
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
        const convolution_case shape = transposed ? transposable(c) : c;
        const op the_op
                = convolution_op(transposed ? op::kind::ConvTransposeBackward
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
        const op the_op = convolution_op(
                op::kind::ConvBackward, c, layouts()[0], data_type::f64);
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
