// doc/numerics.md, Accuracy: sums of many terms, of random signs and of equal
// ones, on every kernel; and the measure itself.
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

/// An op of which every element of output 0 is the sum of so many equal terms,
/// where the elements of input 0 are 0.1 and those of the others 0.3.
struct equal_terms {
    op the_op;
    double term;
};

TEST(reference, adds_up_many_equal_terms) {
    constexpr int64_t count = 560925;
    const layout &l = layouts()[0];
    constexpr data_type type = data_type::f64;
    const auto convolution = [&](op::kind kind, int64_t channels, int64_t src,
                                     int64_t window) {
        const convolution_case c {
                "line", 1, 1, 1, channels, {src}, {window}, {1}, {1}, {0}, {0}};
        return equal_terms {convolution_op(kind, c, l, type), 0.1 * 0.3};
    };
    const std::vector<equal_terms> all {
            {plane_op(op::kind::BiasAddBackward, {"row", {1, 2, count}}, l,
                     type),
                    0.1},
            {interpolation_op(
                     {"to_a_point", 1, 1, {1}, {count}}, {"nearest"}, l, type),
                    0.3},
            convolution(op::kind::ConvolutionBackwardWeights, 1, count, 1),
            convolution(op::kind::ConvolutionBackwardData, count, 1, 1),
            convolution(op::kind::ConvTransposeBackwardData, 1, count, count)};
    for (const equal_terms &each : all) {
        const values_list inputs = random_inputs(each.the_op, 1);
        std::vector<detail::reference_tensor> tensors;
        for (size_t index = 0; index < inputs.size(); ++index)
            tensors.push_back({each.the_op.get_inputs()[index].get_dims(),
                    std::vector<double>(
                            inputs[index].size(), index == 0 ? 0.1 : 0.3)});
        const auto exact = static_cast<double>(
                static_cast<long double>(each.term) * count);
        const auto outputs = detail::reference(each.the_op, tensors);
        // Its own chains have 256 terms.
        for (const double sum : outputs.front().values)
            EXPECT_LE(std::fabs(sum - exact), 256 * 0x1p-53 * exact)
                    << static_cast<int>(each.the_op.get_kind());
    }
}

enum class signs { random, equal };

/// An op of long sums on a kernel.
struct long_sum {
    engine::kind on;
    std::string kernel;
    std::string op_name;
    op the_op;
    signs terms;
};

void add(std::vector<long_sum> &all, const std::string &problem,
        const std::string &name, const op &the_op) {
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, problem))
            for (const signs terms : {signs::random, signs::equal}) {
                // Equal ones in one layout: the same sums take as long. oneDNN
                // takes large planes of 1x1 windows in NXC only.
                if (terms == signs::equal && name.ends_with("_nxc")
                        && !name.starts_with("pointwise_plane"))
                    continue;
                all.push_back({kind, kernel,
                        name + (terms == signs::random ? "" : "_equal"), the_op,
                        terms});
            }
}

/// Terms of a gradient of the weights: N * H * W, of src: channels * window.
void add_convolutions(std::vector<long_sum> &all) {
    const std::vector<convolution_case> of_weights {
            {"vgg_first", 2, 1, 3, 16, {224, 224}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            {"mnist_first", 400, 1, 1, 6, {28, 28}, {5, 5}, {1, 1}, {1, 1},
                    {2, 2}, {2, 2}},
            {"resnet_first", 4, 1, 3, 8, {256, 256}, {7, 7}, {2, 2}, {1, 1},
                    {3, 3}, {3, 3}},
            {"volume", 1, 1, 2, 4, {48, 48, 48}, {3, 3, 3}, {1, 1, 1},
                    {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
            {"pointwise_plane", 1, 1, 32, 32, {640, 640}, {1, 1}, {1, 1},
                    {1, 1}, {0, 0}, {0, 0}},
            {"pointwise", 40, 1, 16, 24, {56, 56}, {1, 1}, {1, 1}, {1, 1},
                    {0, 0}, {0, 0}},
            {"depthwise", 6, 16, 16, 16, {150, 150}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            {"line", 1, 1, 2, 2, {300000}, {2}, {1}, {1}, {0}, {0}}};
    const std::vector<convolution_case> of_src {
            {"channels_512", 1, 1, 4, 512, {7, 7}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}},
            {"channels_2048", 1, 1, 4, 2048, {7, 7}, {3, 3}, {1, 1}, {1, 1},
                    {1, 1}, {1, 1}}};
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const data_type type :
                {data_type::f32, data_type::f64, data_type::bf16}) {
            wanted_outputs weights {false, true, false, true};
            weights.f32_gradients = type == data_type::bf16;
            const std::string suffix
                    = std::string("_") + to_string(type) + "_" + l.name;
            for (const convolution_case &c : of_weights) {
                const bool is_large = c.name != "line" && c.name != "depthwise";
                if (type != data_type::f32 && is_large) continue;
                add(all, "convolution", c.name + suffix,
                        convolution_op(
                                op::kind::ConvBackward, c, l, type, weights));
            }
            for (const convolution_case &c : of_src)
                add(all, "convolution", c.name + suffix,
                        convolution_op(op::kind::ConvBackward, c, l, type,
                                {true, false, false}));
        }
}

void add_interpolations(std::vector<long_sum> &all) {
    const std::vector<interpolation_case> cases {
            {"to_a_point", 1, 1, {1}, {1000000}},
            {"to_two", 1, 5, {2}, {300000}},
            {"rows_to_two", 1, 3, {2, 3}, {70001, 5}},
            {"volume_to_a_point", 1, 16, {1, 1, 1}, {30, 60, 50}}};
    for (const char *mode : {"nearest", "linear"})
        for (const layout &l : {layouts()[0], layouts()[1]})
            for (const data_type type :
                    {data_type::f32, data_type::f64, data_type::f16})
                for (const interpolation_case &c : cases)
                    add(all, "interpolation",
                            c.name + "_" + mode + "_" + to_string(type) + "_"
                                    + l.name,
                            interpolation_op(c, {mode}, l, type));
}

void add_biases(std::vector<long_sum> &all) {
    const std::vector<plane_case> cases {{"long_row", {1, 3, 1000000}},
            {"long_batch", {400000, 2}}, {"images", {2000, 3, 14, 14}}};
    for (const layout &l : {layouts()[0], layouts()[1]})
        for (const data_type type :
                {data_type::f32, data_type::f64, data_type::bf16})
            for (const plane_case &c : cases)
                add(all, "bias", c.name + "_" + to_string(type) + "_" + l.name,
                        plane_op(op::kind::BiasAddBackward, c, l, type,
                                type == data_type::bf16));
}

std::vector<long_sum> long_sums() {
    std::vector<long_sum> all;
    add_convolutions(all);
    add_interpolations(all);
    add_biases(all);
    return all;
}

class long_sums_are_exact : public testing::TestWithParam<long_sum> {};

TEST_P(long_sums_are_exact, on_every_kernel) {
    const long_sum &p = GetParam();
    const forced_kernel forced(p.kernel);
    compiled_partition compiled;
    try {
        compiled = compile(p.the_op, shared_engine(p.on));
    } catch (const error &refusal) {
        ASSERT_EQ(refusal.status, status::unimplemented) << refusal.what();
        return; // another kernel's
    }
    values_list inputs = random_inputs(p.the_op, seed_of(p.op_name));
    random_source numbers(seed_of(p.op_name));
    for (size_t index = 0; index < inputs.size(); ++index) {
        if (is_shape_input(p.the_op, index)) continue;
        if (p.terms == signs::random)
            inputs[index] = numbers.values(inputs[index].size());
        else
            inputs[index].assign(inputs[index].size(), index == 0 ? 0.1 : 0.3);
    }
    op_run run(p.the_op, compiled, shared_engine(p.on), inputs, {});
    run.execute();
    if (p.terms == signs::random)
        run.expect_right();
    else
        run.expect_sums_right();
}

INSTANTIATE_TEST_SUITE_P(all, long_sums_are_exact,
        testing::ValuesIn(long_sums()), [](const auto &param) {
            const long_sum &p = param.param;
            return conformance_name({p.on, p.kernel, p.op_name, p.the_op});
        });

} // namespace
} // namespace gradnn::test
