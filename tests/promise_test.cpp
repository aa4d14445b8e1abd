// The measure of doc/numerics.md, Accuracy: what an error counts, and what is
// promised of an output.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "files/tensor_data.hpp"
#include "reference/accuracy.hpp"
#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

TEST(sum_error, counts_what_is_beyond_half_an_ulp) {
    const auto error = [](data_type type, double given, double exact) {
        return detail::sum_error(type, given, exact, 2);
    };
    EXPECT_EQ(error(data_type::f32, 1 + 0x1p-24, 1), 0);
    // 0x1p-23 is an ulp, of which half remains: 2^-24 = u, half of u * 2.
    EXPECT_EQ(error(data_type::f32, 1 + 0x1p-23, 1), 0.5);
    EXPECT_EQ(error(data_type::f64, 1 + 0x1p-52, 1), 0.5);
    EXPECT_EQ(error(data_type::f16, 1 + 0x1p-11, 1), 0);
    EXPECT_EQ(error(data_type::f16, 1 + 0x1p-10, 1), 0x1p-11 / 0x1p-23);
    EXPECT_EQ(error(data_type::bf16, -1 - 0x1p-8, -1), 0);
    // Below the normal numbers of f16 an ulp is 2^-24.
    EXPECT_EQ(error(data_type::f16, 0x1p-20 + 0x1p-25, 0x1p-20), 0);
    EXPECT_GT(error(data_type::f16, 0x1p-20 + 0x1p-24, 0x1p-20), 0);
}

TEST(sum_error, knows_infinities) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double nan = std::nan("");
    const auto error = detail::sum_error;
    EXPECT_EQ(error(data_type::f32, nan, nan, nan), 0);
    EXPECT_EQ(error(data_type::f32, infinity, infinity, infinity), 0);
    EXPECT_EQ(error(data_type::f32, -infinity, infinity, infinity), infinity);
    EXPECT_EQ(error(data_type::f32, nan, 1, 1), infinity);
    EXPECT_EQ(error(data_type::f32, 1, nan, nan), infinity);
    EXPECT_EQ(error(data_type::f32, 1, 0, 0), infinity);
    // What rounds to an infinity may be one.
    EXPECT_EQ(error(data_type::f16, infinity, 65520, 65520), 0);
    EXPECT_GT(error(data_type::f16, infinity, 60000, 60000),
            detail::longest_chain);
    // An f32 sum may pass its range on the way.
    EXPECT_EQ(error(data_type::f32, infinity, 1, 1e39), 0);
    EXPECT_GT(error(data_type::f64, infinity, 1, 1e39), detail::longest_chain);
}

// Of an op whose inputs are off: 2^-20 more of each element.
TEST(promise, may_allow_more) {
    const auto largest = [](double chain, double off) {
        detail::promise held;
        held.type = data_type::f32;
        held.chain = chain;
        std::vector<double> magnitudes {2, 2};
        detail::allow_more(held, magnitudes, std::vector<double> {0x1p-20, 0});
        const std::vector<double> exact {1, 1};
        const auto errors = detail::allowed_errors(held, exact, magnitudes);
        EXPECT_NEAR(errors[0] - errors[1], 0x1p-20, 0x1p-25);
        const std::vector<double> given {1 + off, 1};
        return detail::largest_sum_error(held.type, given, exact, magnitudes)
                <= held.chain;
    };
    // Half an ulp is 2^-24, and the promise of a sum 2^14 times 2^-23 beside it.
    EXPECT_TRUE(largest(0, 0x1p-20));
    EXPECT_FALSE(largest(0, 0x1p-20 + 0x1p-23));
    EXPECT_TRUE(largest(detail::longest_chain, 0x1p-9 + 0x1p-20));
    EXPECT_FALSE(largest(detail::longest_chain, 0x1p-9 + 0x1p-20 + 0x1p-22));
}

TEST(promise, is_relaxed_for_f32_products_alone) {
    const auto promise = [](const op &the_op, size_t port, fpmath_mode mode) {
        return detail::promise_of(the_op, port, mode);
    };
    const convolution_case &shape = convolution_named("sixteen_channels");
    const layout &l = layouts()[0];
    const auto convolution = [&](data_type type, bool f32_gradients) {
        return convolution_op(op::kind::ConvBackward, shape, l, type,
                {true, true, true, f32_gradients});
    };
    const op f32 = convolution(data_type::f32, false);
    const auto strict = promise(f32, 0, fpmath_mode::strict);
    EXPECT_FALSE(strict.relaxed);
    EXPECT_EQ(strict.chain, detail::longest_chain);
    EXPECT_EQ(strict.share, 0);
    EXPECT_EQ(strict.norm, 2e-6);
    // c u + 4 v, in units of u.
    for (const auto &[mode, chain] :
            {std::pair {fpmath_mode::tf32, 49152}, {fpmath_mode::f16, 49152},
                    {fpmath_mode::bf16, 278528}, {fpmath_mode::any, 278528}})
        for (const size_t port : {0U, 1U}) {
            const auto relaxed = promise(f32, port, mode);
            EXPECT_TRUE(relaxed.relaxed);
            EXPECT_EQ(relaxed.chain, chain);
            EXPECT_EQ(relaxed.share, 0.25);
            EXPECT_GT(relaxed.norm, 2e-6);
        }
    // Sums of diff_bias have no products, nor have other ops' any to relax.
    EXPECT_FALSE(promise(f32, 2, fpmath_mode::any).relaxed);
    EXPECT_FALSE(promise(interpolation_op(interpolation_named("up_2x"), {}, l,
                                 data_type::f32),
            0, fpmath_mode::any)
                         .relaxed);
    EXPECT_FALSE(
            promise(convolution(data_type::f64, false), 0, fpmath_mode::any)
                    .relaxed);
    const op bf16 = convolution(data_type::bf16, true);
    EXPECT_FALSE(promise(bf16, 0, fpmath_mode::any).relaxed);
    EXPECT_TRUE(promise(bf16, 1, fpmath_mode::any).relaxed);
}

// Where every factor is repeated the same term is added up again and again, and
// the same is rounded off each time.
TEST(promise, in_norm_counts_equal_terms) {
    using detail::reference_tensor;
    const auto op_of = [](op::kind kind, data_type type) {
        return convolution_op(kind, convolution_named("sixteen_channels"),
                layouts()[0], type);
    };
    random_source numbers(5);
    // Planes of 9 x 5: of random numbers, of 9 equal rows, of one number, and with
    // zeros in three of four places.
    const auto plane = [&](const auto &value) {
        reference_tensor result {{9, 5}, {}};
        for (size_t row = 0; row < 9; ++row)
            for (size_t column = 0; column < 5; ++column)
                result.values.push_back(value(row, column));
        return result;
    };
    const auto next = [&](size_t, size_t) { return numbers.value(); };
    const reference_tensor different = plane(next);
    const reference_tensor equal_rows = plane([](size_t, size_t column) {
        return 0.1 * static_cast<double>(column + 1);
    });
    const reference_tensor constant = plane([](size_t, size_t) { return 0.3; });
    const reference_tensor sparse = plane([&](size_t row, size_t column) {
        return row % 2 + column % 2 == 0 ? numbers.value() : 0.0;
    });
    const auto more = [](const op &the_op, size_t port,
                              const std::vector<reference_tensor> &inputs) {
        return detail::norm_of_equal_terms(the_op, port, inputs);
    };
    const op weights
            = op_of(op::kind::ConvolutionBackwardWeights, data_type::f32);
    EXPECT_DOUBLE_EQ(more(weights, 0, {equal_rows, equal_rows}), 2 * 2e-6);
    EXPECT_DOUBLE_EQ(more(weights, 0, {constant, equal_rows}), 2 * 2e-6);
    EXPECT_DOUBLE_EQ(
            more(weights, 0, {constant, constant}), (std::sqrt(45) - 1) * 2e-6);
    EXPECT_EQ(more(weights, 0, {constant, different}), 0);
    EXPECT_EQ(more(weights, 0, {different, equal_rows}), 0);
    EXPECT_EQ(more(weights, 0, {sparse, sparse}), 0);
    EXPECT_DOUBLE_EQ(
            more(op_of(op::kind::ConvolutionBackwardWeights, data_type::f64), 0,
                    {equal_rows, equal_rows}),
            2 * 1e-12);
    // Rows that overlap: 45 elements in 5 + 8 places.
    const auto overlapping = [](size_t id, data_type type) {
        return logical_tensor(id, type, {9, 5}, {1, 1});
    };
    const op shared(0, op::kind::ConvolutionBackwardWeights,
            {overlapping(0, data_type::bf16), overlapping(1, data_type::bf16)},
            {logical_tensor(2, data_type::f32, {1, 1}, {1, 1})});
    EXPECT_DOUBLE_EQ(more(shared, 0, {different, different}),
            (std::sqrt(45.0 / 13) - 1) * 2e-6);
    // diff_dst, src, weights: an output's sums have two of them, diff_bias one.
    const op all = op_of(op::kind::ConvBackward, data_type::f32);
    const std::vector inputs {equal_rows, constant, different};
    EXPECT_EQ(more(all, 0, inputs), 0);
    EXPECT_DOUBLE_EQ(more(all, 1, inputs), 2 * 2e-6);
    EXPECT_DOUBLE_EQ(more(all, 2, inputs), 2 * 2e-6);
    EXPECT_EQ(more(all, 2, {different, constant, constant}), 0);
}

// Zeros of the padding times an infinity.
TEST(promise, lets_nan_be_beside_padding) {
    const double nan = std::nan("");
    const double infinity = std::numeric_limits<double>::infinity();
    const op sum = convolution_op(op::kind::ConvBackward,
            convolution_named("sixteen_channels"), layouts()[0],
            data_type::f32);
    const std::vector<detail::reference_tensor> finite {{{2}, {1, 2}}};
    const std::vector<detail::reference_tensor> infinite {{{2}, {1, infinity}}};
    const auto held_to = [&](size_t port, const auto &inputs, double given) {
        return detail::exact_beside_padding(
                sum, port, inputs, std::vector {given}, std::vector {3.0})
                .at(0);
    };
    for (const size_t port : {0U, 1U}) {
        EXPECT_TRUE(std::isnan(held_to(port, infinite, nan)));
        EXPECT_EQ(held_to(port, finite, nan), 3);
        EXPECT_EQ(held_to(port, infinite, infinity), 3);
        EXPECT_EQ(held_to(port, infinite, 2.5), 3);
    }
    EXPECT_EQ(held_to(2, infinite, nan), 3); // diff_bias meets no padding
}

TEST(promise, relaxed_lets_transforms_mix_elements) {
    const op the_op = convolution_op(op::kind::ConvolutionBackwardData,
            convolution_named("sixteen_channels"), layouts()[0],
            data_type::f32);
    // The second element has no terms.
    const std::vector<double> exact {100, 0};
    const std::vector<double> given {100, 1e-6};
    const std::vector<double> magnitudes {200, 0};
    const auto is_kept
            = [&](fpmath_mode mode, const std::vector<double> &values) {
                  const auto held = detail::promise_of(the_op, 0, mode);
                  return detail::largest_sum_error(data_type::f32, values,
                                 exact, detail::held_to(held, magnitudes))
                          <= held.chain;
              };
    EXPECT_FALSE(is_kept(fpmath_mode::strict, given));
    EXPECT_TRUE(is_kept(fpmath_mode::tf32, given));
    // (c u + 4 v) M / 4 is, not more.
    EXPECT_FALSE(is_kept(fpmath_mode::tf32, {100, 1}));
    EXPECT_FALSE(is_kept(fpmath_mode::any, {100, 2}));
    EXPECT_FALSE(is_kept(fpmath_mode::any, {100, std::nan("")}));
    const auto held = detail::promise_of(the_op, 0, fpmath_mode::tf32);
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(detail::held_to(held, std::vector {infinity, 8.0, 0.0}),
            (std::vector {infinity, 10.0, 2.0}));
}

// Factors that are rounded keep the promise of a mode that allows it, and break
// that of one that does not.
TEST(promise, tells_the_types_of_factors_apart) {
    for (const op::kind kind : {op::kind::ConvolutionBackwardData,
                 op::kind::ConvolutionBackwardWeights}) {
        const op the_op
                = convolution_op(kind, convolution_named("sixteen_channels"),
                        layouts()[0], data_type::f32);
        std::vector<detail::reference_tensor> inputs;
        for (const auto &values : random_inputs(the_op, 3))
            inputs.push_back(
                    {the_op.get_inputs()[inputs.size()].get_dims(), values});
        const auto exact = detail::reference(the_op, inputs);
        const auto magnitudes = detail::sum_magnitudes(the_op, inputs);
        const auto is_kept = [&](data_type factors, fpmath_mode mode) {
            auto rounded = inputs;
            for (auto &input : rounded)
                for (double &value : input.values)
                    value = detail::rounded_to(factors, value);
            const auto given = detail::reference(the_op, rounded);
            const auto held = detail::promise_of(the_op, 0, mode);
            return detail::largest_sum_error(data_type::f32, given[0].values,
                           exact[0].values,
                           detail::held_to(held, magnitudes[0].values))
                    <= held.chain
                    && compare(held.norm, given[0].values, exact[0].values)
                    == "";
        };
        EXPECT_TRUE(is_kept(data_type::f32, fpmath_mode::strict));
        // f16 has the digits of TF32.
        EXPECT_FALSE(is_kept(data_type::f16, fpmath_mode::strict));
        EXPECT_TRUE(is_kept(data_type::f16, fpmath_mode::tf32));
        EXPECT_TRUE(is_kept(data_type::f16, fpmath_mode::f16));
        EXPECT_FALSE(is_kept(data_type::bf16, fpmath_mode::strict));
        EXPECT_TRUE(is_kept(data_type::bf16, fpmath_mode::bf16));
        EXPECT_TRUE(is_kept(data_type::bf16, fpmath_mode::any));
    }
}

} // namespace
} // namespace gradnn::test
