// Nearest upsampling and convolution as one convolution of the small tensor: what it
// computes, when it is taken and what is said of it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include <gtest/gtest.h>

#include "driver/comparison.hpp"
#include "driver/evaluation.hpp"
#include "kernel/axis_map.hpp"
#include "support/captured_log.hpp"
#include "support/op_chains.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

constexpr auto fusion = partition::policy::fusion;
constexpr auto debug = partition::policy::debug;
using kind = op::kind;

/// Tensors by id.
enum : size_t {
    x,
    u,
    diff_dst,
    weights,
    diff_u,
    diff_weights,
    diff_bias,
    diff_x
};

struct upsampled_convolution {
    int64_t n, groups, channels, out_channels;
    sizes small, repeats, kernel, pads_begin, pads_end;
    std::string coordinates = "half_pixel";
    bool data = true; ///< what the group has
    bool weights = true; ///< with the forward interpolation
    bool f32_weights = false;
    bool alone = false; ///< an op that has one of both gradients and no other

    sizes large() const {
        sizes result = small;
        for (size_t axis = 0; axis < small.size(); ++axis)
            result[axis] *= repeats[axis];
        return result;
    }
};

std::string text_of(const upsampled_convolution &c) {
    const auto print = [](const sizes &s) { return testing::PrintToString(s); };
    return "n " + std::to_string(c.n) + " groups " + std::to_string(c.groups)
            + " channels " + std::to_string(c.channels) + " to "
            + std::to_string(c.out_channels) + " small " + print(c.small)
            + " repeats " + print(c.repeats) + " kernel " + print(c.kernel)
            + " pads " + print(c.pads_begin) + print(c.pads_end)
            + (c.data ? " data" : "") + (c.weights ? " weights" : "");
}

/// Interpolate, ConvBackward and InterpolateBackward, or what there is of them.
std::vector<op> ops_of(
        const upsampled_convolution &c, const layout &l, data_type type) {
    const sizes ones(c.small.size(), 1);
    const convolution_case convolution {"conv", c.n, c.groups, c.channels,
            c.out_channels, c.large(), c.kernel, ones, ones, c.pads_begin,
            c.pads_end};
    wanted_outputs wanted;
    wanted.diff_src = c.data;
    wanted.f32_gradients = c.f32_weights;
    const op conv = convolution_op(!c.alone ? kind::ConvBackward
                    : c.data                ? kind::ConvolutionBackwardData
                                            : kind::ConvolutionBackwardWeights,
            convolution, l, type, wanted);
    interpolation_choice choice {"nearest", c.coordinates};
    const interpolation_case resized {
            "up", c.n, c.channels, c.small, c.large()};
    const op down = interpolation_op(resized, choice, l, type);
    choice.forward = true;
    const op up = interpolation_op(resized, choice, l, type);
    const auto numbered = [](const logical_tensor &lt, size_t id) {
        if (lt.is_absent()) return lt;
        if (lt.get_layout_type() == layout_type::any)
            return logical_tensor(
                    id, lt.get_data_type(), lt.get_dims(), layout_type::any);
        return logical_tensor(
                id, lt.get_data_type(), lt.get_dims(), lt.get_strides());
    };
    const logical_tensor small = numbered(up.get_inputs()[0], x);
    // Whoever makes a tensor lays it out.
    const logical_tensor large = numbered(up.get_outputs()[0], u);
    const auto named = [&](std::vector<logical_tensor> ports) {
        // As convolution_op numbers them.
        constexpr size_t ids[]
                = {u, diff_dst, weights, diff_u, diff_weights, diff_bias};
        for (logical_tensor &lt : ports)
            if (!lt.is_absent())
                lt = lt.get_id() == 0 && c.weights
                        ? large
                        : numbered(lt, ids[lt.get_id()]);
        return ports;
    };
    const auto outputs = named(conv.get_outputs());
    std::vector<op> ops;
    if (c.weights) ops.push_back(with_ports(up, 0, {small}, {large}));
    ops.push_back(with_ports(conv, 1, named(conv.get_inputs()), outputs));
    if (c.data)
        ops.push_back(with_ports(down, 2, {small, outputs[0]},
                {numbered(down.get_outputs()[0], diff_x)}));
    return ops;
}

double error_of(const graph_run &run, const std::vector<op> &ops, size_t id) {
    driver::partition_reference reference(
            run.compiled().at(0), fpmath_mode::strict);
    for (const op &each : ops) {
        const auto exact
                = reference.evaluate(each, [&](const logical_tensor &lt) {
                      return detail::reference_tensor {
                              lt.get_dims(), run.values(lt.get_id())};
                  });
        for (size_t port = 0; port < each.get_outputs().size(); ++port)
            if (!each.get_outputs()[port].is_absent()
                    && each.get_outputs()[port].get_id() == id) {
                const auto &wanted = exact.outputs[port].values;
                return driver::relative_error(run.values(id), wanted, wanted);
            }
    }
    throw std::logic_error("no such tensor");
}

class composed : public testing::TestWithParam<engine::kind> {
protected:
    engine the_engine() const { return shared_engine(GetParam()); }

    /// Runs as one partition, in the form that is named.
    graph_run run(const std::vector<op> &ops,
            const char *form = "partition.composed") const {
        const forced_kernel forced(form);
        graph_run result(ops, the_engine(), fusion);
        EXPECT_EQ(result.partitions().size(), 1U);
        return result;
    }

    bool is_composed(const std::vector<op> &ops,
            const char *form = "partition.composed") const {
        return run(ops, form).compiled().at(0).get_info().composed;
    }
};

const upsampled_convolution plain {
        2, 1, 5, 6, {4, 7}, {2, 2}, {3, 3}, {1, 1}, {1, 1}};

TEST_P(composed, gives_what_its_ops_do) {
    random_source numbers(test_seed(48));
    const auto axis_values = [&](size_t rank, int64_t low, int64_t high) {
        sizes values(rank);
        for (int64_t &value : values)
            value = numbers.integer(low, high);
        return values;
    };
    size_t taken = 0;
    for (const layout &l : layouts())
        for (const data_type type : float_types())
            for (size_t rank = 1; rank <= 3; ++rank) {
                const auto number = &l - layouts().data();
                if (thinned_out(number + static_cast<ptrdiff_t>(rank), type))
                    continue;
                upsampled_convolution c;
                c.n = numbers.integer(1, 3);
                c.groups = numbers.integer(0, 3) == 0 ? 2 : 1;
                c.channels = c.groups * numbers.integer(1, 9);
                c.out_channels = c.groups * numbers.integer(1, 9);
                c.small = axis_values(rank, 1, rank == 3 ? 4 : 9);
                c.repeats = axis_values(rank, 1, rank == 3 ? 2 : 4);
                c.kernel = axis_values(rank, 1, 5);
                c.pads_begin = axis_values(rank, 0, 4);
                c.pads_end = axis_values(rank, 4, 5); // windows fit
                c.coordinates = numbers.integer(0, 1) == 0 ? "half_pixel"
                                                           : "asymmetric";
                c.f32_weights = detail::size_of(type) == 2
                        && numbers.integer(0, 2) == 0;
                const int64_t wanted = numbers.integer(0, 4);
                c.data = wanted != 0;
                c.weights = wanted != 1 || !c.data;
                c.alone = c.data != c.weights && numbers.integer(0, 1) == 0;
                SCOPED_TRACE(text_of(c) + ' ' + l.name + ' ' + to_string(type));
                const std::vector<op> ops = ops_of(c, l, type);
                const graph_run together = run(ops);
                expect_right(together, ops);
                const bool repeats = std::any_of(c.repeats.begin(),
                        c.repeats.end(), [](int64_t r) { return r > 1; });
                EXPECT_EQ(
                        together.compiled().at(0).get_info().composed, repeats);
                taken += repeats ? 1 : 0;
                if (HasFailure()) return;
            }
    EXPECT_GT(taken, thinned() ? 20U : 100U);
}

// doc/numerics.md, Partitions of several ops: figures for 16 bits.
TEST_P(composed, keeps_the_promise_of_single_ops_in_norm) {
    for (const size_t rank : {2U, 3U})
        for (const data_type type : float_types()) {
            const sizes side(rank, rank == 2 ? 12 : 5);
            const upsampled_convolution c {2, 1, 32, 24, side, sizes(rank, 2),
                    sizes(rank, 3), sizes(rank, 1), sizes(rank, 1)};
            const std::vector<op> ops = ops_of(c, layouts()[1], type);
            const graph_run composed = run(ops);
            const graph_run of_ops = run(ops, "partition.ops");
            for (const size_t id : {diff_x, diff_weights}) {
                const double error = error_of(composed, ops, id);
                const double before = error_of(of_ops, ops, id);
                EXPECT_LE(error, tolerance_of(type));
                std::printf("%s %zu-D %s: ops %.1e, composed %.1e\n",
                        to_string(type), rank,
                        id == diff_x ? "diff_x" : "diff_weights", before,
                        error);
            }
        }
}

TEST_P(composed, says_so) {
    const captured_log log(1);
    const std::vector<op> ops = ops_of(plain, layouts()[0], data_type::f32);
    const graph_run composed = run(ops);
    const auto info = composed.compiled().at(0).get_info();
    ASSERT_EQ(info.steps.size(), 5U);
    const char *const outputs[] = {"composed_weights", "diff_src",
            "diff_composed_weights", "diff_weights", "diff_bias"};
    const size_t op_ids[] = {1, 2, 1, 1, 1};
    for (size_t index = 0; index < 5; ++index) {
        EXPECT_EQ(info.steps[index].output, outputs[index]);
        EXPECT_EQ(info.steps[index].op_id, op_ids[index]);
    }
    EXPECT_EQ(log.lines("execute").at(0).at("note"), "composed");
    const graph_run of_ops = run(ops, "partition.ops");
    EXPECT_FALSE(of_ops.compiled().at(0).get_info().composed);
    EXPECT_EQ(log.lines("execute").at(1).at("note"), "");
    // Neither the upsampled tensor nor its gradient is in the workspace.
    const size_t large
            = of_ops.compiled()[0].get_info().inner[0].get_mem_size();
    const size_t composed_weights = 6 * 5 * 4 * 4 * sizeof(float);
    size_t scratch = 0;
    for (const step_info &step : info.steps)
        scratch = std::max(scratch, step.workspace_bytes);
    const auto rounded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    EXPECT_EQ(info.workspace_bytes, 2 * rounded(composed_weights) + scratch);
    EXPECT_GE(of_ops.compiled()[0].get_workspace_size(), 2 * rounded(large));
}

TEST_P(composed, gives_the_same_bits_again) {
    const std::vector<op> ops = ops_of(plain, layouts()[0], data_type::bf16);
    const graph_run first = run(ops);
    const graph_run second = run(ops);
    for (const size_t id : first.outputs())
        EXPECT_EQ(first.bytes(id), second.bytes(id));
}

TEST_P(composed, is_only_what_repeats_elements_alike) {
    const layout &l = layouts()[0];
    EXPECT_TRUE(is_composed(ops_of(plain, l, data_type::f32)));
    upsampled_convolution c = plain;
    c.coordinates = "align_corners";
    c.repeats = {3, 3};
    const auto aligned = ops_of(c, l, data_type::f32);
    EXPECT_FALSE(is_composed(aligned));
    expect_right(run(aligned), aligned);
    c = plain;
    c.repeats = {8, 9};
    EXPECT_FALSE(is_composed(ops_of(c, l, data_type::f32)))
            << "sums of more than 64 weights";
    c.repeats = {1, 1};
    EXPECT_FALSE(is_composed(ops_of(c, l, data_type::f32)));
    c = plain;
    c.n = 0;
    EXPECT_FALSE(is_composed(ops_of(c, l, data_type::f32))) << "no images";
    // 7 from 4 and 13 from 7.
    auto ops = ops_of(plain, l, data_type::f32);
    const interpolation_case uneven {"up", 2, 5, {4, 7}, {7, 13}};
    const convolution_case behind {"conv", 2, 1, 5, 6, {7, 13}, {3, 3}, {1, 1},
            {1, 1}, {1, 1}, {1, 1}};
    const op conv = convolution_op(
            kind::ConvolutionBackwardData, behind, l, data_type::f32);
    const op down = interpolation_op(uneven, {"nearest"}, l, data_type::f32);
    const logical_tensor inner(
            10, data_type::f32, sizes {2, 5, 7, 13}, layout_type::strided);
    EXPECT_FALSE(is_composed({with_ports(conv, 0, conv.get_inputs(), {inner}),
            with_ports(down, 1,
                    {logical_tensor(11, data_type::f32, sizes {2, 5, 4, 7},
                             layout_type::strided),
                            inner},
                    {logical_tensor(12, data_type::f32, sizes {2, 5, 4, 7},
                            layout_type::strided)})}));
}

TEST_P(composed, is_taken_where_it_is_estimated_to_be_faster) {
    const upsampled_convolution large {
            1, 1, 64, 64, {32, 32}, {2, 2}, {3, 3}, {1, 1}, {1, 1}};
    const upsampled_convolution tiny {
            1, 1, 2, 2, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
    EXPECT_TRUE(is_composed(ops_of(large, layouts()[1], data_type::f32), ""));
    EXPECT_FALSE(is_composed(ops_of(tiny, layouts()[1], data_type::f32), ""));
    // A kernel that is asked for is for the ops that name it.
    EXPECT_FALSE(is_composed(ops_of(large, layouts()[1], data_type::f32),
            GetParam() == engine::kind::cpu ? "convolution.gemm"
                                            : "convolution.gpu_direct"));
}

INSTANTIATE_TEST_SUITE_P(engines, composed, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

TEST(composed_groups, are_found) {
    upsampled_convolution c = plain;
    const auto groups_of = [&](std::vector<op> ops) {
        const graph built = graph_of(ops, engine::kind::cpu);
        std::vector<size_t> sizes_of;
        for (const partition &each : graph(built).get_partitions(fusion))
            sizes_of.push_back(each.get_ops_num());
        return sizes_of;
    };
    const layout &l = layouts()[0];
    using counts = std::vector<size_t>;
    EXPECT_EQ(groups_of(ops_of(c, l, data_type::f32)), counts {3});
    c.weights = false;
    EXPECT_EQ(groups_of(ops_of(c, l, data_type::f32)), counts {2});
    c.weights = true;
    c.data = false;
    EXPECT_EQ(groups_of(ops_of(c, l, data_type::f32)), counts {2});
    // Whoever reads the large gradient needs it: the convolution stays with that.
    auto ops = ops_of(plain, l, data_type::f32);
    const logical_tensor large = ops[1].get_outputs()[0];
    ops[2] = op(2, kind::ReLUBackward,
            {logical_tensor(20, data_type::f32, large.get_dims(),
                     layout_type::strided),
                    large},
            {logical_tensor(21, data_type::f32, large.get_dims(),
                    layout_type::strided)});
    EXPECT_EQ(groups_of(ops), (counts {1, 2}));
    // And so does who reads the upsampled tensor.
    ops = ops_of(plain, l, data_type::f32);
    ops.emplace_back(3, kind::End, std::vector {ops[0].get_outputs()[0]},
            std::vector<logical_tensor> {});
    EXPECT_EQ(groups_of(ops), (counts {1, 2, 1}));
}

// V[m] = sum of W[k - 1 - m + t], 0 <= t < r, and the transpose of that.
TEST(composed_map, sums_a_window_that_descends) {
    for (int64_t k = 1; k <= 7; ++k)
        for (int64_t r = 1; r <= 5; ++r)
            for (const bool transposed : {false, true}) {
                const int64_t wide = k + r - 1;
                const detail::axis_map map = detail::make_axis_map(
                        detail::interpolation_mode::box, {},
                        {transposed ? k : wide, transposed ? wide : k});
                ASSERT_EQ(map.src, transposed ? k : wide);
                for (int64_t i = 0; i < map.src; ++i) {
                    std::vector<double> row(static_cast<size_t>(map.dst), 0);
                    for (int64_t t = 0; t < map.count(i); ++t)
                        row.at(static_cast<size_t>(map.first(i) + t))
                                += map.weight(map.offset(i) + t);
                    for (int64_t o = 0; o < map.dst; ++o) {
                        const int64_t t = o + i - (k - 1);
                        EXPECT_EQ(row[static_cast<size_t>(o)],
                                t >= 0 && t < r ? 1 : 0);
                    }
                }
            }
}

} // namespace
} // namespace gradnn::test
