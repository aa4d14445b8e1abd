// Which ops become one partition, and which do not.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/op_chains.hpp"
#include "support/op_samples.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

using namespace samples;
using groups = std::vector<std::vector<size_t>>;

groups groups_of(const std::vector<op> &ops,
        partition::policy policy = partition::policy::fusion) {
    graph g = graph_of(ops, engine::kind::cpu);
    groups result;
    for (const partition &each : g.get_partitions(policy))
        result.push_back(each.get_ops());
    if (policy == partition::policy::fusion) {
        EXPECT_EQ(g.get_partition_count(), result.size());
    }
    return result;
}

op end(size_t id, const lt &tensor) {
    return {id, op::kind::End, {tensor}, {}};
}

/// A convolution of one channel of 1x1 windows, so that all its tensors but
/// diff_bias have the dims 1x1x1.
op tiny_convolution(size_t id, size_t diff_dst, size_t src, size_t weights,
        size_t diff_src, size_t diff_weights) {
    const sizes one {1, 1, 1};
    op result(id, op::kind::ConvBackward,
            {f32(diff_dst, one), f32(src, one), f32(weights, one)},
            {f32(diff_src, one), f32(diff_weights, one)});
    result.set_attr(attr::strides, sizes {1});
    result.set_attr(attr::dilations, sizes {1});
    result.set_attr(attr::pads_begin, sizes {0});
    result.set_attr(attr::pads_end, sizes {0});
    result.set_attr<std::string>(attr::data_format, "NCX");
    result.set_attr<std::string>(attr::weights_format, "OIX");
    return result;
}

op tiny(op::kind kind, size_t id, size_t a, size_t b, size_t out) {
    const sizes one {1, 1, 1};
    return {id, kind, {f32(a, one), f32(b, one)}, {f32(out, one)}};
}

class grouping : public testing::TestWithParam<named_chain> {};

TEST_P(grouping, of_the_table) {
    std::vector<op> ops
            = chain_of(GetParam().links, layouts()[0], data_type::f32);
    std::vector<size_t> all;
    for (const op &each : ops)
        all.push_back(each.get_id());
    const logical_tensor inner = ops[0].get_outputs()[0];
    std::reverse(ops.begin(), ops.end()); // the order of adding does not count
    EXPECT_EQ(groups_of(ops), groups {all});
    EXPECT_EQ(groups_of(ops, partition::policy::debug).size(), all.size());
    // Ports are what the ops read and write together, but what is between them.
    const partition whole
            = graph_of(ops, engine::kind::cpu).get_partitions().front();
    size_t ports = 0;
    for (const op &each : ops)
        ports += each.get_inputs().size() + each.get_outputs().size();
    const auto inputs = whole.get_input_ports();
    const auto outputs = whole.get_output_ports();
    EXPECT_EQ(inputs.size() + outputs.size(), ports - 2 * (all.size() - 1));
    for (const auto *list : {&inputs, &outputs})
        for (const lt &port : *list)
            EXPECT_NE(port.get_id(), inner.get_id());

    // A reader outside keeps the tensor outside.
    ops.push_back(end(9, inner));
    const groups ended = groups_of(ops);
    EXPECT_EQ(std::count(ended.begin(), ended.end(), all), 0);
    for (const auto &group : ended)
        EXPECT_TRUE(group.front() != 0 || group.size() == 1);
}

INSTANTIATE_TEST_SUITE_P(patterns, grouping,
        testing::ValuesIn(grouped_chains()),
        [](const auto &each) { return each.param.name; });

TEST(no_grouping, of_other_chains) {
    using kind = op::kind;
    const auto separate = [](const std::vector<link> &links) {
        const auto ops = chain_of(links, layouts()[0], data_type::f32);
        return groups_of(ops).size() == ops.size();
    };
    EXPECT_TRUE(separate({{kind::ReLUBackward}, {kind::Add}}));
    EXPECT_TRUE(separate({{kind::Add}, {kind::ReLUBackward}}));
    EXPECT_TRUE(separate({{kind::Add}, {kind::ConvBackward}}));
    EXPECT_TRUE(separate({{kind::ConvBackward}, {kind::ConvBackward}}));
    EXPECT_TRUE(
            separate({{kind::ReLUBackward}, {kind::ConvolutionBackwardData}}));
    EXPECT_TRUE(separate(
            {{kind::InterpolateBackward}, {kind::InterpolateBackward}}));
}

// The longest pattern from the first op on; what is taken is not taken again.
TEST(grouping_of_long_chains, goes_from_the_front) {
    using kind = op::kind;
    const auto of = [](const std::vector<link> &links) {
        return groups_of(chain_of(links, layouts()[0], data_type::f32));
    };
    EXPECT_EQ(of({{kind::ConvBackward}, {kind::ReLUBackward},
                      {kind::ConvBackward}, {kind::Add}, {kind::ReLUBackward},
                      {kind::ConvBackward}}),
            (groups {{0, 1}, {2, 3, 4}, {5}}));
    EXPECT_EQ(of({{kind::Add}, {kind::InterpolateBackward}, {kind::Add},
                      {kind::InterpolateBackward}}),
            (groups {{0, 1}, {2, 3}}));
    EXPECT_EQ(of({{kind::ReLUBackward}, {kind::ConvBackward},
                      {kind::ReLUBackward}}),
            (groups {{0, 1}, {2}}));
}

TEST(no_grouping, of_a_tensor_with_two_readers) {
    // By two ops, and twice by one.
    const std::vector<op> two {tiny_convolution(0, 0, 1, 2, 10, 11),
            tiny(op::kind::ReLUBackward, 1, 3, 10, 12),
            tiny(op::kind::ReLUBackward, 2, 4, 10, 13)};
    EXPECT_EQ(groups_of(two).size(), 3U);
    const std::vector<op> twice {tiny_convolution(0, 0, 1, 2, 10, 11),
            tiny(op::kind::Add, 1, 10, 10, 12)};
    EXPECT_EQ(groups_of(twice).size(), 2U);
}

TEST(no_grouping, where_it_is_read_as_no_gradient) {
    // As the src of a ReLU, of an interpolation, and as a convolution's src.
    EXPECT_EQ(groups_of({tiny_convolution(0, 0, 1, 2, 10, 11),
                                tiny(op::kind::ReLUBackward, 1, 10, 3, 12)})
                      .size(),
            2U);
    EXPECT_EQ(groups_of({tiny(op::kind::ReLUBackward, 0, 0, 1, 10),
                                tiny_convolution(1, 2, 10, 3, 11, 12)})
                      .size(),
            2U);
    const sizes small {1, 2, 4, 4};
    EXPECT_EQ(groups_of({op(0, op::kind::Add, {f32(7, small), f32(8, small)},
                                 {f32(0, small)}),
                                interpolation(
                                        {f32(0, small), f32(1, {1, 2, 8, 8})},
                                        {f32(2, small)})})
                      .size(),
            2U);
}

TEST(no_grouping, of_another_output_than_the_gradient) {
    EXPECT_EQ(groups_of({tiny_convolution(0, 0, 1, 2, 10, 11),
                                tiny(op::kind::Add, 1, 11, 3, 12)})
                      .size(),
            2U);
}

TEST(no_grouping, across_an_op_of_another_library) {
    const sizes dims {1, 1, 1};
    const std::vector<op> ops {tiny_convolution(0, 0, 1, 2, 10, 11),
            op(1, op::kind::Wildcard, {f32(10, dims)}, {f32(12, dims)}),
            tiny(op::kind::ReLUBackward, 2, 3, 12, 13)};
    EXPECT_EQ(groups_of(ops), (groups {{0}, {1}, {2}}));
}

// diff_src of the convolution goes to the Add, diff_weights too, by way of an op
// that would have to run between the two.
TEST(no_grouping, where_another_partition_stands_between) {
    const std::vector<op> ops {tiny_convolution(0, 0, 1, 2, 10, 11),
            op(1, op::kind::Wildcard, {f32(11, {1, 1, 1})},
                    {f32(12, {1, 1, 1})}),
            tiny(op::kind::Add, 2, 10, 12, 13)};
    EXPECT_EQ(groups_of(ops), (groups {{0}, {1}, {2}}));
}

// Each of two groups alone could run; together each would wait for the other.
TEST(no_grouping, of_two_groups_that_wait_for_one_another) {
    const std::vector<op> ops {tiny_convolution(0, 0, 1, 2, 10, 11),
            tiny_convolution(1, 3, 4, 5, 20, 21),
            tiny(op::kind::ReLUBackward, 2, 21, 10, 12),
            tiny(op::kind::ReLUBackward, 3, 11, 20, 22)};
    EXPECT_EQ(groups_of(ops), (groups {{1}, {0, 2}, {3}}));
    // The same by a longer way is noticed too.
    std::vector<op> longer = ops;
    longer[2] = tiny(op::kind::ReLUBackward, 2, 30, 10, 12);
    longer.push_back(tiny(op::kind::Add, 4, 21, 6, 30));
    EXPECT_EQ(groups_of(longer), (groups {{1}, {4}, {0, 2}, {3}}));
}

// Partitions come in an order that runs, also where a group waits for an op that
// was added later than its first one.
TEST(grouping_order, runs) {
    const std::vector<op> ops {tiny_convolution(0, 0, 1, 2, 10, 11),
            tiny(op::kind::Add, 1, 10, 20, 12),
            tiny(op::kind::ReLUBackward, 2, 3, 4, 20)};
    EXPECT_EQ(groups_of(ops), (groups {{2}, {0, 1}}));
}

TEST(grouping_of_a_cycle, is_refused) {
    graph g(engine::kind::cpu);
    g.add_op(relu(0, 0, 2, 1));
    g.add_op(relu(1, 0, 1, 2));
    EXPECT_THROW(g.finalize(), error);
}

TEST(policies, have_ids_of_their_own_and_no_others_are_allowed) {
    graph g = graph_of(chain_of({{op::kind::InterpolateBackward},
                                        {op::kind::ReLUBackward}},
                               layouts()[0], data_type::f32),
            engine::kind::cpu);
    const size_t whole = g.get_partitions().at(0).get_id();
    for (const partition &each : g.get_partitions(partition::policy::debug))
        EXPECT_NE(each.get_id(), whole);
    EXPECT_THROW(g.get_partitions(static_cast<partition::policy>(0)), error);
}

} // namespace
} // namespace gradnn::test
