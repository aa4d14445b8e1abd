// doc/numerics.md, Accuracy: sums of many terms, of random signs and of equal
// ones, on every kernel. promise_test.cpp tests the measure itself.
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
                // Nor is other memory read.
                if (terms == signs::equal && thinned()) continue;
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
                // A third of a sanitizer's time; pointwise reads memory alike.
                if (thinned() && c.name == "pointwise_plane") continue;
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
