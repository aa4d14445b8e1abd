// Graphs with ops that gradnn cannot compute: each gives an unsupported
// partition, and the others run.
#include <algorithm>

#include <gtest/gtest.h>

#include <gradnn/gradnn.hpp>

#include "op/op_names.hpp"
#include "op/op_schema.hpp"
#include "reference/reference.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using namespace samples;

/// relu1 -> Wildcard -> relu2 -> MatMul, and End on relu1's output.
graph mixed_graph() {
    graph g(engine::kind::cpu);
    op wildcard(2, op::kind::Wildcard, {f32(12, {2, 3, 4})},
            {f32(13, {2, 3, 4})}, "theirs");
    op matmul(4, op::kind::MatMul, {f32(15, {2, 3, 4}), f32(16, {4, 4})},
            {f32(17, {2, 3, 4})});
    matmul.set_attr(op::attr::transpose_b, true);
    const op end(5, op::kind::End, {f32(12, {2, 3, 4})}, {});
    g.add_op(matmul);
    g.add_op(relu(3, 14, 13, 15));
    g.add_op(end);
    g.add_op(wildcard);
    g.add_op(relu(1, 10, 11, 12));
    g.finalize();
    return g;
}

TEST(foreign_ops, are_unsupported_partitions) {
    graph g = mixed_graph();
    EXPECT_EQ(g.get_partition_count(), 5U);
    const engine cpu(engine::kind::cpu, 0);
    std::vector<size_t> order;
    for (const partition &p : g.get_partitions()) {
        ASSERT_EQ(p.get_ops_num(), 1U);
        const size_t id = p.get_ops()[0];
        order.push_back(id);
        const bool ours = id == 1 || id == 3;
        EXPECT_EQ(p.is_supported(), ours) << id;
        EXPECT_EQ(p.unsupported_reason().empty(), ours) << id;
        if (ours) {
            EXPECT_NO_THROW(
                    p.compile(p.get_input_ports(), p.get_output_ports(), cpu));
            continue;
        }
        try {
            p.compile(p.get_input_ports(), p.get_output_ports(), cpu);
            ADD_FAILURE() << "compiled op " << id;
        } catch (const error &failure) {
            EXPECT_EQ(failure.status, status::invalid_arguments);
            EXPECT_NE(std::string(failure.what()).find(p.unsupported_reason()),
                    std::string::npos);
        }
    }
    // Producers first.
    const auto place = [&](size_t id) {
        return std::find(order.begin(), order.end(), id) - order.begin();
    };
    EXPECT_LT(place(1), place(2));
    EXPECT_LT(place(2), place(3));
    EXPECT_LT(place(3), place(4));
    EXPECT_LT(place(1), place(5));
}

TEST(foreign_ops, reasons_name_them) {
    const auto reason = [](op::kind kind) {
        return partition(op(0, kind), engine::kind::cpu).unsupported_reason();
    };
    EXPECT_NE(reason(op::kind::MatMul).find("MatMul"), std::string::npos);
    EXPECT_NE(reason(op::kind::Wildcard).find("Wildcard"), std::string::npos);
    EXPECT_NE(reason(op::kind::End).find("End"), std::string::npos);
}

TEST(foreign_ops, edges_count) {
    graph g(engine::kind::cpu);
    g.add_op(relu(1, 10, 11, 12));
    g.add_op(op(2, op::kind::Wildcard, {}, {f32(12, {2, 3, 4})}));
    try {
        g.finalize();
        FAIL() << "two producers of one tensor";
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::invalid_graph);
    }
    graph cycle(engine::kind::cpu);
    cycle.add_op(relu(1, 10, 13, 12));
    cycle.add_op(op(
            2, op::kind::Wildcard, {f32(12, {2, 3, 4})}, {f32(13, {2, 3, 4})}));
    EXPECT_THROW(cycle.finalize(), error);
}

TEST(foreign_ops, numbers_that_are_no_kind_are_refused) {
    graph g(engine::kind::cpu);
    for (const auto kind : {op::kind::LastSymbol, static_cast<op::kind>(-1),
                 static_cast<op::kind>(500)})
        EXPECT_EQ(g.add_op(op(0, kind), false), status::invalid_graph_op);
}

// Names are read as they are written, and no two kinds share one.
TEST(op_names, round_trip) {
    int kinds = 0;
    for (int value = 0; value < 0x10010; ++value) {
        const auto kind = static_cast<op::kind>(value);
        const auto found = detail::kind_named(to_string(kind));
        if (!found) continue;
        ++kinds;
        EXPECT_EQ(*found, kind) << value;
    }
    EXPECT_GT(kinds, 85);
    for (const detail::op_schema &schema : detail::all_schemas())
        EXPECT_EQ(detail::kind_named(schema.name), schema.kind);
    EXPECT_FALSE(detail::kind_named("LastSymbol"));
    EXPECT_FALSE(detail::kind_named("matmul"));
    EXPECT_EQ(detail::attr_named("transpose_b"), op::attr::transpose_b);
    EXPECT_FALSE(detail::attr_named("transpose_c"));
    EXPECT_EQ(detail::attr_named(to_string(op::attr::scale_rule)),
            op::attr::scale_rule);
}

} // namespace
} // namespace gradnn::test
