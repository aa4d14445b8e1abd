// Convolutions, for every kernel: where Inf and NaN go, and how exact long sums
// are.
//
// A sum holds the terms of its formula and no others: what a window meets
// outside src is absent, not a zero that could turn an Inf into a NaN. oneDNN,
// cuDNN and CUTLASS do pad with zeros: of their kernels no more is asked than
// that what is not finite by the formula is not finite, and all that IEEE says
// where nothing is padded.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

using param = std::tuple<engine::kind, std::string>;

std::vector<param> kernels() {
    std::vector<param> all;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "convolution"))
            all.emplace_back(kind, kernel);
    return all;
}

class convolution_values : public testing::TestWithParam<param> {
protected:
    static bool pads_with_zeros() {
        const std::string &kernel = std::get<1>(GetParam());
        return kernel == "convolution.onednn" || kernel == "convolution.cudnn"
                || kernel == "convolution.gpu_tf32x3"
                || kernel == "convolution.gpu_f64"
                || kernel == "convolution.gpu_wide_weights";
    }

    static wanted_outputs outputs(data_type type) {
        return outputs_of(std::get<1>(GetParam()), type);
    }
    /// Whether an output follows from an input, dst, src or weights.
    static bool matters(size_t input) {
        return input != 2 || outputs(data_type::f32).diff_src;
    }

    /// Nothing where the kernel refuses.
    static std::optional<op_run> run(
            const op &the_op, const values_list &inputs) {
        const engine e = shared_engine(std::get<0>(GetParam()));
        const forced_kernel forced(std::get<1>(GetParam()));
        std::optional<op_run> r;
        try {
            r.emplace(the_op, e, inputs);
        } catch (const error &refusal) {
            EXPECT_EQ(refusal.status, status::unimplemented);
            return std::nullopt;
        }
        r->execute();
        return r;
    }

    /// Puts a special value into one input and compares what came of it.
    void check(const op &the_op, size_t input, double special) const {
        values_list inputs = random_inputs(the_op, 17);
        // One in the middle, and two at the edges, where windows look outside.
        inputs[input][inputs[input].size() / 2] = special;
        inputs[input].front() = special;
        inputs[input].back() = special;
        const auto r = run(the_op, inputs);
        if (!r) return;
        const auto expected = r->reference();
        for (size_t output = 0; output < expected.size(); ++output) {
            const auto out = r->output(output);
            for (size_t i = 0; i < out.size(); ++i) {
                const double wanted = expected[output].values[i];
                if (pads_with_zeros() && std::isfinite(wanted)) continue;
                ASSERT_EQ(std::isfinite(out[i]), std::isfinite(wanted))
                        << "output " << output << " element " << i << " is "
                        << out[i] << ", not " << wanted;
                if (pads_with_zeros()) continue;
                ASSERT_EQ(std::isnan(out[i]), std::isnan(wanted))
                        << "output " << output << " element " << i << " is "
                        << out[i] << ", not " << wanted;
                if (std::isinf(wanted)) {
                    ASSERT_EQ(out[i], wanted)
                            << "output " << output << " element " << i;
                }
            }
        }
    }

    /// Specials in one input, some of them in one sum, zeros in the others: the
    /// outputs are what IEEE arithmetic gives.
    void check_unpadded(
            const op &the_op, size_t input, double first, double second) const {
        values_list inputs = random_inputs(the_op, 19);
        for (values_list::value_type &values : inputs)
            for (size_t i = 0; i < values.size(); i += 7)
                values[i] = 0.0; // along every axis
        auto &specials = inputs[input];
        const size_t middle = specials.size() / 2 + 1;
        specials[middle] = first;
        // The next one along each axis that is summed over.
        for (const size_t distance : {size_t {1}, points, channels})
            specials[middle + distance] = second;
        const auto r = run(the_op, inputs);
        if (!r) return;
        const auto expected = r->reference();
        size_t infinities = 0, nans = 0;
        for (size_t output = 0; output < expected.size(); ++output) {
            const auto out = r->output(output);
            for (size_t i = 0; i < out.size(); ++i) {
                const double wanted = expected[output].values[i];
                infinities += std::isinf(wanted) ? 1 : 0;
                nans += std::isnan(wanted) ? 1 : 0;
                ASSERT_EQ(std::isnan(out[i]), std::isnan(wanted))
                        << "output " << output << " element " << i << " is "
                        << out[i] << ", not " << wanted;
                ASSERT_EQ(std::isinf(out[i]), std::isinf(wanted))
                        << "output " << output << " element " << i << " is "
                        << out[i] << ", not " << wanted;
                if (std::isinf(wanted)) {
                    ASSERT_EQ(out[i], wanted)
                            << "output " << output << " element " << i;
                }
            }
        }
        EXPECT_GT(nans, 0U);
        if (!std::isnan(first)) {
            EXPECT_GT(infinities, 0U);
        }
    }

    /// A 1x1 convolution: no zeros stand for what lies outside src, nor, with
    /// so many channels, for what fills up a kernel's vectors.
    static constexpr size_t points = 30;
    static constexpr size_t channels = 64;
    static convolution_case unpadded() {
        return {"unpadded", 2, 1, channels, channels, {5, 6}, {1, 1}, {1, 1},
                {1, 1}, {0, 0}, {0, 0}};
    }
};

TEST_P(convolution_values, specials_are_ieee_without_padding) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    // As a gradient of src the second kind is a forward convolution.
    for (const op::kind kind :
            {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
        for (const data_type type : float_types())
            for (const size_t which : {0U, 1U})
                for (const size_t input : {0U, 1U, 2U})
                    for (const auto &[first, second] :
                            {std::pair {infinity, infinity},
                                    {infinity, -infinity}, {-infinity, 1.0},
                                    {nan, -infinity}}) {
                        SCOPED_TRACE(std::string(to_string(kind)) + " "
                                + to_string(type) + " " + layouts()[which].name
                                + " input " + std::to_string(input) + " "
                                + std::to_string(first) + " "
                                + std::to_string(second));
                        if (!matters(input)) continue;
                        check_unpadded(
                                convolution_op(kind, unpadded(),
                                        layouts()[which], type, outputs(type)),
                                input, first, second);
                    }
}

TEST_P(convolution_values, specials_stay_in_their_sums) {
    // What is read and written does not depend on where they are: thinned out,
    // six of seven ops have one.
    size_t number = 0;
    for (const op::kind kind :
            {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
        for (const char *name : {"plain_2d", "sixteen_channels", "strided_2d",
                     "depthwise_2d", "depthwise_wide", "depthwise_5x5",
                     "depthwise_5x5_strided", "depthwise_5x5_even",
                     "depthwise_7x7", "depthwise_eights_3x3_full",
                     "depthwise_eights_5x5", "depthwise_eights_7x7",
                     "depthwise_eights_7x7_valid", "depthwise_lines_7_rows",
                     "depthwise_lines_48_many", "depthwise_3d",
                     "depthwise_wide_3d", "grouped_2d", "narrow_groups",
                     "asymmetric_pads", "plain_1d", "plain_3d"})
            for (const data_type type : float_types())
                for (const size_t which : {0U, 1U})
                    for (const size_t input : {0U, 1U, 2U})
                        for (const double special :
                                {std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<
                                                double>::quiet_NaN()}) {
                            if (thinned() && number++ % 7 != 0) continue;
                            SCOPED_TRACE(std::string(to_string(kind)) + " "
                                    + name + " " + to_string(type) + " "
                                    + layouts()[which].name + " input "
                                    + std::to_string(input) + " "
                                    + std::to_string(special));
                            check(convolution_op(kind, convolution_named(name),
                                          layouts()[which], type,
                                          outputs(type)),
                                    input, special);
                        }
}

// Sums of 18432 products: a plain chain of f32 sums, or of a tensor core's,
// would be further off than the tolerance of f32.
TEST_P(convolution_values, long_sums_stay_exact) {
    const convolution_case dense {"long_sums", 8, 1, 16, 32, {48, 48}, {3, 3},
            {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    convolution_case depthwise = dense;
    depthwise.name = "long_depthwise";
    depthwise.groups = depthwise.large_channels = depthwise.small_channels = 24;
    convolution_case narrow = dense;
    narrow.name = "long_narrow_groups";
    narrow.groups = 4;
    const engine e = shared_engine(std::get<0>(GetParam()));
    for (const convolution_case &shape : {dense, depthwise, narrow})
        for (size_t which : {0U, 1U})
            for (const data_type type :
                    {data_type::f32, data_type::bf16, data_type::f16}) {
                if (thinned() && type == data_type::f16) continue;
                SCOPED_TRACE(std::string(shape.name) + " "
                        + layouts()[which].name + " " + to_string(type));
                wanted_outputs wanted;
                wanted.diff_src = false;
                wanted.f32_gradients = true;
                run_forced(convolution_op(op::kind::ConvBackward, shape,
                                   layouts()[which], type, wanted),
                        e, std::get<1>(GetParam()), 23);
            }
}

// doc/numerics.md, Smallest numbers: what is said of bf16 on the CPU. gradnn's own
// kernels compute with all of them; oneDNN's may have 0 for factors, products and
// sums below 2^-126.
TEST_P(convolution_values, smallest_numbers_of_bf16) {
    if (std::get<0>(GetParam()) != engine::kind::cpu)
        GTEST_SKIP() << "is said of the CPU";
    const double smallest = std::ldexp(1.0, -126);
    for (const char *name :
            {"plain_2d", "sixteen_channels", "depthwise_2d", "narrow_groups"})
        for (const size_t which : {0U, 1U}) {
            const op the_op = convolution_op(op::kind::ConvBackward,
                    convolution_named(name), layouts()[which], data_type::bf16);
            values_list ones = random_inputs(the_op, 29);
            for (auto &values : ones)
                std::fill(values.begin(), values.end(), 1.0);
            std::optional<expectation> terms; // their number is S of ones
            // Powers of two of diff_dst, and of src and weights.
            for (const auto &[of_dst, of_others] : {std::pair {-127, 20},
                         {-100, -20}, {-100, -27}, {-60, -50}}) {
                SCOPED_TRACE(std::string(name) + ' ' + layouts()[which].name
                        + ' ' + std::to_string(of_dst) + ' '
                        + std::to_string(of_others));
                values_list inputs = random_inputs(the_op, 29);
                for (size_t input = 0; input < 3; ++input)
                    for (double &value : inputs[input])
                        value = std::ldexp(
                                value, input == 0 ? of_dst : of_others);
                const auto r = run(the_op, inputs);
                if (!r) continue;
                for (double &value : inputs[0])
                    if (std::fabs(value) < smallest) value = 0;
                const expectation exact = r->expected();
                const expectation flushed = run(the_op, inputs)->expected();
                if (!terms) terms = run(the_op, ones)->expected();
                const double lost = pads_with_zeros() ? 2 * smallest : 0;
                for (size_t output = 0; output < 2; ++output) {
                    const auto out = r->output(output);
                    for (size_t i = 0; i < out.size(); ++i) {
                        const double wanted = exact.exact[output].values[i];
                        const double allowed
                                = std::ldexp(
                                          std::max(std::fabs(wanted), smallest),
                                          -8)
                                + std::ldexp(
                                        exact.magnitudes[output].values[i], -10)
                                + lost * terms->magnitudes[output].values[i];
                        const bool right = std::fabs(out[i] - wanted) <= allowed
                                || (pads_with_zeros()
                                        && std::fabs(out[i]
                                                   - flushed.exact[output]
                                                             .values[i])
                                                <= allowed);
                        ASSERT_TRUE(right)
                                << "output " << output << " element " << i
                                << " is " << out[i] << ", not " << wanted;
                    }
                }
            }
        }
}

INSTANTIATE_TEST_SUITE_P(kernels, convolution_values,
        testing::ValuesIn(kernels()), [](const auto &each) {
            return identifier(std::string(to_string(std::get<0>(each.param)))
                    + "_" + std::get<1>(each.param));
        });

} // namespace
} // namespace gradnn::test
