// What the kernels of the implicit GEMM are asked to compute is the problem:
// every mapping is carried out by plain loops, copies included, and compared with
// the problem's formula. Needs no GPU.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "gpu/convolution/implicit_gemm/implicit_gemm.hpp"
#include "gpu/convolution/operands.hpp"
#include "support/plain_convolution.hpp"

namespace gradnn::test {
namespace {

using gpu::convolution_operand;
using gpu::implicit_gemm::all_of;
using gpu::implicit_gemm::dense_mapping_of;
using gpu::implicit_gemm::element_types;

/// What execute does with a mapping, with loops in CUTLASS's place.
void by_mapping(const gpu::implicit_gemm::dense_mapping &m,
        std::array<memory, 3> &data) {
    using gpu::implicit_gemm::operation;
    const auto &p = m.problem;
    const int64_t input_size = detail::size_of(p.types.input);
    EXPECT_EQ(p.c * input_size % 16, 0);
    EXPECT_EQ(p.k * input_size % 16, 0);
    const auto [first, second, output] = m.order;
    std::array<memory, 3> staged;
    std::array<double *, 3> seen {};
    for (const size_t i : {first, second, output}) {
        const auto &operand = m.operands[i];
        seen[i] = data[i].data();
        if (!operand.staged) continue;
        const bool fill = i != output && operand.zero_first;
        const data_type type = i == output ? p.types.output : p.types.input;
        EXPECT_EQ(operand.copy.src_type, type);
        EXPECT_EQ(operand.copy.dst_type, type);
        const int64_t element = detail::size_of(type);
        staged[i].assign(operand.bytes / static_cast<size_t>(element),
                fill ? 0.0 : std::nan(""));
        seen[i] = staged[i].data();
        if (i != output) copy(operand.copy, data[i].data(), seen[i]);
    }
    const auto at = [](const std::array<int64_t, 3> &dims, int64_t channels,
                            const std::array<int64_t, 5> &i) {
        return (((i[0] * dims[0] + i[2]) * dims[1] + i[3]) * dims[2] + i[4])
                * channels
                + i[1];
    };
    // The kernel's own three tensors: src, weights, dst of a convolution that
    // may be another than the caller's.
    std::array<double *, 3> own {seen[first], seen[second], seen[output]};
    auto direction = convolution_direction::forward;
    if (p.operation == operation::weights) {
        own = {seen[second], seen[output], seen[first]};
        direction = convolution_direction::backward_weights;
    } else if (p.operation == operation::strided_data) {
        own = {seen[output], seen[second], seen[first]};
        direction = convolution_direction::backward_data;
    }
    std::fill_n(seen[output], p.output_elements(), 0.0);
    const auto &[src, window, dst] = std::tie(p.src, p.window, p.dst);
    const loops all {1, {p.n, p.c, src[0], src[1], src[2]},
            {p.k, p.c, window[0], window[1], window[2]},
            {p.n, p.k, dst[0], dst[1], dst[2]}, p.strides, p.dilations, p.pads};
    all.run([&](const auto &x, auto w, const auto &y) {
        if (p.flipped)
            for (size_t a = 0; a < 3; ++a)
                w[2 + a] = window[a] - 1 - w[2 + a];
        accumulate(direction, own[0][at(src, p.c, x)],
                own[1][at(window, p.c, w)], own[2][at(dst, p.k, y)]);
    });
    const auto &result = m.operands[output];
    if (!result.staged) return;
    const double zero = 0.0;
    gpu::strided_copy fill = result.fill;
    fill.src_strides = {};
    if (result.zero_first) copy(fill, &zero, data[output].data());
    copy(result.copy, seen[output], data[output].data());
}

TEST(dense_mapping, computes_the_problem) {
    const element_types wanted[] {all_of(data_type::f32),
            all_of(data_type::f64), {data_type::bf16, data_type::f32}};
    const uint64_t seed = test_seed(20261122);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 6000; ++round) {
        const convolution_problem p = random_problem(random);
        std::string refusal;
        const auto mapping = dense_mapping_of(p, wanted[round % 3], refusal);
        EXPECT_EQ(mapping.has_value(), refusal.empty());
        if (!mapping) continue;
        ASSERT_TRUE(computes(p, mapping->order[2], random,
                [&](auto &data) { by_mapping(*mapping, data); }))
                << "round " << round;
        ++tried;
    }
    EXPECT_GT(tried, 300U);
}

TEST(dense_mapping, copies_no_more_of_src_than_taps_meet) {
    const uint64_t seed = test_seed(20261126);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 2000; ++round) {
        const convolution_problem p = random_with_passed_over(random);
        const auto met = gpu::of_met_positions(p);
        std::string refusal;
        const auto mapping
                = dense_mapping_of(p, all_of(data_type::f32), refusal);
        EXPECT_EQ(mapping.has_value(), refusal.empty());
        if (!met || !mapping || !mapping->operands[0].staged) continue;
        // A gradient of src may be computed by the window backwards.
        const std::array<int64_t, 3> &staged = mapping->problem.flipped
                ? mapping->problem.dst
                : mapping->problem.src;
        for (size_t axis = 0; axis < 3; ++axis)
            if (met->strides[axis] != p.strides[axis]) {
                EXPECT_EQ(mapping->problem.strides[axis], 1);
                EXPECT_EQ(staged[axis], p.dst.dims[2 + axis]);
            }
        ASSERT_TRUE(computes(p, mapping->order[2], random,
                [&](auto &data) { by_mapping(*mapping, data); }))
                << "round " << round;
        ++tried;
    }
    EXPECT_GT(tried, 100U);
}

/// Windows side by side that tile src, or all but its end.
convolution_problem random_patches(random_source &random, data_type type) {
    convolution_problem p = random_problem(random);
    p.src.type = p.weights.type = p.dst.type = type;
    p.weights.dims[0] = 1;
    p.src.dims[1] = p.weights.dims[2] = random.integer(1, 5);
    p.dst.dims[1] = p.weights.dims[1];
    const bool exact = p.direction == convolution_direction::backward_data
            || random.integer(0, 1) == 1;
    for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t window = axis == 0 ? 1 : random.integer(1, 4);
        const int64_t count = axis == 0 ? 1 : random.integer(1, 4);
        p.weights.dims[3 + axis] = window;
        p.dst.dims[2 + axis] = count;
        p.src.dims[2 + axis] = count * window
                + (exact || axis == 0 ? 0 : random.integer(0, window));
        p.strides[axis] = count == 1 ? random.integer(1, 5) : window;
        p.dilations[axis] = window == 1 ? random.integer(1, 3) : 1;
        p.pads_begin[axis] = 0;
    }
    lay_out(p, random);
    return p;
}

// As a product of matrices: without a window.
TEST(dense_mapping, computes_patches) {
    const uint64_t seed = test_seed(20261124);
    SCOPED_TRACE("GRADNN_TEST_SEED=" + std::to_string(seed));
    random_source random(seed);
    size_t tried = 0;
    for (int round = 0; round < 2000; ++round) {
        const data_type type = round % 2 == 0 ? data_type::f32 : data_type::f64;
        const convolution_problem p = random_patches(random, type);
        std::string refusal;
        const auto mapping = dense_mapping_of(p, all_of(type), refusal);
        ASSERT_TRUE(mapping) << refusal;
        EXPECT_EQ(mapping->problem.window, (std::array<int64_t, 3> {1, 1, 1}));
        EXPECT_EQ(mapping->problem.strides, (std::array<int64_t, 3> {1, 1, 1}));
        ASSERT_TRUE(computes(p, mapping->order[2], random,
                [&](auto &data) { by_mapping(*mapping, data); }))
                << "round " << round;
        ++tried;
    }
    EXPECT_EQ(tried, 2000U);
}

// What no window meets has a gradient of zero, which no product writes.
TEST(dense_mapping, leaves_patches_with_rests_to_windows) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    p.weights.dims = {1, 16, 8, 1, 3, 3};
    p.strides = {1, 3, 3};
    p.pads_begin = {0, 0, 0};
    p.dst.dims = {2, 16, 1, 4, 3};
    p.dst.strides = data_strides(p.dst.dims, order::nxc);
    std::string refusal;
    const auto m = dense_mapping_of(p, all_of(data_type::f32), refusal);
    ASSERT_TRUE(m) << refusal;
    EXPECT_EQ(m->problem.window[1], 3);
    p.direction = convolution_direction::backward_weights;
    const auto weights = dense_mapping_of(p, all_of(data_type::f32), refusal);
    ASSERT_TRUE(weights) << refusal;
    EXPECT_EQ(weights->problem.window[1], 1);
}

/// A plan of copies alone.
struct copying_plan {
    std::unique_ptr<detail::plan> plan;

    copying_plan(
            const std::array<convolution_operand, 3> &operands, size_t output)
        : plan(gpu::plan_of({operands, output, 0, {}, ""})) {}

    /// Whether the copy of the input is then that of `earlier`.
    bool share(copying_plan &earlier, size_t index) {
        plan->share_copy(*earlier.plan, index);
        return shares(gpu::operand_names[index]);
    }
    bool shares(const std::string &name) const {
        return plan->backend().ends_with("(" + name + " by the step before))");
    }
};

convolution_operand copied(size_t bytes) {
    convolution_operand made;
    made.staged = true;
    made.bytes = bytes;
    return made;
}

/// Of one op's gradients of src and of weights, with copies of all.
std::array<copying_plan, 2> gradients_with_copies() {
    const std::array operands {copied(100), copied(200), copied(300)};
    return {copying_plan(operands, 0), copying_plan(operands, 1)};
}

// Each shared copy lies at the start of the workspace: there is room for one.
TEST(staged_convolution, shares_one_input) {
    auto [data, weights] = gradients_with_copies();
    EXPECT_FALSE(weights.share(data, 0)); // an output of one
    EXPECT_FALSE(weights.share(data, 1));
    EXPECT_TRUE(weights.share(data, 2));
    EXPECT_FALSE(data.shares("dst"));
    // Two forward ones, whose inputs are src and weights.
    const std::array operands {copied(100), copied(100), copied(100)};
    copying_plan first(operands, 2);
    copying_plan second(operands, 2);
    copying_plan third(operands, 2);
    EXPECT_TRUE(second.share(first, 1));
    EXPECT_FALSE(second.share(first, 0));
    EXPECT_FALSE(third.share(second, 0));
    EXPECT_TRUE(third.share(second, 1));
    // The same bytes to the same places, by other axes: two of groups and channels,
    // or one of both.
    const auto of_axes = [](gpu::strided_copy copy) {
        convolution_operand staged = copied(480);
        copy.src_type = copy.dst_type = data_type::bf16;
        staged.copy = copy;
        return copying_plan({staged}, 1);
    };
    copying_plan grouped = of_axes({.rank = 4,
            .dims = {2, 3, 4, 10},
            .src_strides = {120, 40, 10, 1},
            .dst_strides = {120, 4, 1, 12}});
    copying_plan merged = of_axes({.rank = 5,
            .dims = {2, 1, 1, 10, 12},
            .src_strides = {120, 7, 7, 1, 10},
            .dst_strides = {120, 5, 5, 12, 1}});
    EXPECT_TRUE(merged.share(grouped, 0));
    // Of as many bytes, but other ones, or to other places.
    const auto changed = [&](const auto &change) {
        convolution_operand staged = copied(480);
        staged.copy = {.src_type = data_type::bf16,
                .dst_type = data_type::bf16,
                .rank = 2,
                .dims = {20, 12},
                .src_strides = {1, 20},
                .dst_strides = {12, 1}};
        copying_plan original({staged}, 1);
        change(staged);
        copying_plan other({staged}, 1);
        return other.share(original, 0);
    };
    using operand = convolution_operand;
    EXPECT_TRUE(changed([](operand &) {}));
    EXPECT_FALSE(changed([](operand &o) { o.copy.src_strides[1] = 40; }));
    EXPECT_FALSE(changed([](operand &o) { o.copy.dst_strides = {1, 20}; }));
    EXPECT_FALSE(changed([](operand &o) { o.copy.dst_type = data_type::f16; }));
    EXPECT_FALSE(changed([](operand &o) { o.zero_first = true; }));
    EXPECT_FALSE(changed([](operand &o) { o.callers_start = 2; }));
    EXPECT_FALSE(changed([](operand &o) { o.staged_start = 2; }));
    // What differs is two copies.
    auto [other_data, other_weights] = gradients_with_copies();
    copying_plan differs({copied(400), copied(400), copied(400)}, 0);
    EXPECT_FALSE(other_weights.share(differs, 2));
}

TEST(dense_mapping, takes_channels_last_as_it_is) {
    convolution_problem p = plain_problem(data_type::f32, order::nxc, 1);
    std::string refusal;
    for (const auto direction : {convolution_direction::forward,
                 convolution_direction::backward_weights}) {
        p.direction = direction;
        const auto m = dense_mapping_of(p, all_of(data_type::f32), refusal);
        ASSERT_TRUE(m) << refusal;
        for (const auto &operand : m->operands)
            EXPECT_FALSE(operand.staged);
    }
    // A gradient of src reads the weights with their channels exchanged.
    p.direction = convolution_direction::backward_data;
    const auto m = dense_mapping_of(p, all_of(data_type::f32), refusal);
    ASSERT_TRUE(m) << refusal;
    EXPECT_FALSE(m->operands[0].staged);
    EXPECT_TRUE(m->operands[1].staged);
    EXPECT_FALSE(m->operands[2].staged);
}

// Kernels read or write 16 bytes at once: four channels of f32, two of f64.
TEST(dense_mapping, fills_channels_to_sixteen_bytes) {
    for (const data_type type : {data_type::f32, data_type::f64}) {
        convolution_problem p = plain_problem(type, order::nxc, 1);
        p.direction = convolution_direction::forward;
        p.src.dims[1] = p.weights.dims[2] = 6;
        p.src.strides = data_strides(p.src.dims, order::nxc);
        p.weights.strides = weights_strides(p.weights.dims, 1);
        std::string refusal;
        const auto m = dense_mapping_of(p, all_of(type), refusal);
        ASSERT_TRUE(m) << refusal;
        const bool filled = type == data_type::f32;
        EXPECT_EQ(m->problem.c, filled ? 8 : 6);
        EXPECT_EQ(m->problem.callers_terms, filled ? 0.75 : 1.0);
        for (const size_t input : {0U, 1U})
            EXPECT_EQ(m->operands[input].staged, filled);
        EXPECT_FALSE(m->operands[2].staged);
    }
}

// Eight channels of data, which kernels read 16 bytes at a time, and as many
// of the weights that they write, in f32 or by way of sums in f32.
TEST(dense_mapping, writes_weights_of_sixteen_bits) {
    for (const data_type type : {data_type::bf16, data_type::f16}) {
        const element_types wide {type, data_type::f32};
        convolution_problem p = plain_problem(type, order::nxc, 1);
        p.direction = convolution_direction::backward_weights;
        std::string refusal;
        EXPECT_FALSE(dense_mapping_of(p, wide, refusal));
        const auto narrow = dense_mapping_of(p, all_of(type), refusal);
        ASSERT_TRUE(narrow) << refusal;
        EXPECT_EQ(narrow->problem.sums_bytes(), size_t {4} * 16 * 9 * 8);
        EXPECT_EQ(narrow->operands[1].bytes, size_t {2} * 16 * 9 * 8);
        EXPECT_NE(partial_bytes(narrow->problem, 1), 0U);
        p.weights.type = data_type::f32;
        const auto m = dense_mapping_of(p, wide, refusal);
        ASSERT_TRUE(m) << refusal;
        for (const auto &operand : m->operands)
            EXPECT_FALSE(operand.staged);
        EXPECT_EQ(m->problem.sums_bytes(), size_t {4} * 16 * 9 * 8);
        EXPECT_EQ(partial_bytes(m->problem, 1), 0U);
        EXPECT_NE(partial_bytes(m->problem, 2), 0U);
        p.src.dims[1] = p.weights.dims[2] = 12;
        p.src.strides = data_strides(p.src.dims, order::nxc);
        p.weights.strides = weights_strides(p.weights.dims, 1);
        const auto odd = dense_mapping_of(p, wide, refusal);
        ASSERT_TRUE(odd) << refusal;
        EXPECT_EQ(odd->problem.c, 16);
        EXPECT_EQ(odd->problem.k, 16);
        for (const size_t filled : {0U, 1U})
            EXPECT_TRUE(odd->operands[filled].staged);
        EXPECT_FALSE(odd->operands[2].staged);
        EXPECT_EQ(odd->operands[1].bytes, size_t {4} * 16 * 9 * 16);
    }
}

TEST(dense_mapping, refuses_with_reasons) {
    const auto reason = [](const convolution_problem &p) {
        std::string refusal;
        EXPECT_FALSE(dense_mapping_of(p, all_of(data_type::f32), refusal));
        return refusal;
    };
    const auto plain = plain_problem(data_type::f32, order::nxc, 1);
    EXPECT_EQ(reason(plain_problem(data_type::f64, order::nxc, 1))
                      .find("takes f32 alone; given f64 NXC, "),
            0U);
    auto p = plain;
    p.weights.dims = {2, 8, 4, 1, 3, 3};
    EXPECT_EQ(reason(p), "takes convolutions of one group, given 2");
    p = plain;
    p.src.dims[0] = p.dst.dims[0] = int64_t {1} << 20;
    EXPECT_NE(reason(p).find("tensors of up to 536870911 elements"),
            std::string::npos);
    p = plain;
    p.weights.dims[5] = 33;
    EXPECT_NE(reason(p).find("given 33"), std::string::npos);
    p = plain;
    p.strides = p.dilations = {1, 2, 2};
    EXPECT_NE(reason(p).find("without dilations"), std::string::npos);
}

} // namespace
} // namespace gradnn::test
