// The public API before compile: logical tensors, names, errors, engines, ops,
// graphs and partitions.
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradnn/version.hpp>
#include <gtest/gtest.h>

#include "op/op_schema.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using lt = logical_tensor;

TEST(logical_tensor_api, what_the_constructors_say) {
    const lt unknown(3, data_type::bf16);
    EXPECT_EQ(unknown.get_id(), 3U);
    EXPECT_EQ(unknown.get_data_type(), data_type::bf16);
    EXPECT_EQ(unknown.get_layout_type(), layout_type::undef);
    EXPECT_THROW(unknown.get_dims(), error);
    EXPECT_THROW(unknown.get_strides(), error);
    EXPECT_THROW(unknown.get_mem_size(), error);

    const lt ranked(4, data_type::f32, 3, layout_type::any);
    EXPECT_EQ(ranked.get_dims(), sizes(3, lt::unknown_dim));
    EXPECT_THROW(ranked.get_mem_size(), error);

    const lt dense(5, data_type::f16, sizes {2, 3, 5}, layout_type::strided,
            lt::property_type::constant);
    EXPECT_EQ(dense.get_strides(), (sizes {15, 5, 1}));
    EXPECT_EQ(dense.get_mem_size(), 60U);
    EXPECT_EQ(dense.get_property_type(), lt::property_type::constant);

    const lt sliced(6, data_type::f64, sizes {2, 3}, sizes {10, 2});
    EXPECT_EQ(sliced.get_layout_type(), layout_type::strided);
    EXPECT_EQ(sliced.get_mem_size(), (10U + 2 * 2 + 1) * 8);

    const lt scalar(7, data_type::f32, sizes {}, layout_type::strided);
    EXPECT_EQ(scalar.get_mem_size(), 4U);
    EXPECT_TRUE(scalar.get_dims().empty());

    const lt opaque(8, data_type::f32, sizes {2}, size_t {17});
    EXPECT_EQ(opaque.get_layout_type(), layout_type::opaque);
    EXPECT_EQ(opaque.get_layout_id(), 17U);
    EXPECT_THROW(dense.get_layout_id(), error);

    EXPECT_TRUE(lt().is_absent());
    EXPECT_FALSE(dense.is_absent());
}

TEST(logical_tensor_api, equality) {
    const lt a(1, data_type::f32, sizes {2, 3}, layout_type::strided);
    EXPECT_TRUE(a.is_equal(lt(1, data_type::f32, sizes {2, 3}, sizes {3, 1})));
    EXPECT_FALSE(a.is_equal(lt(2, data_type::f32, sizes {2, 3}, sizes {3, 1})));
    EXPECT_FALSE(a.is_equal(lt(1, data_type::f16, sizes {2, 3}, sizes {3, 1})));
    EXPECT_FALSE(a.is_equal(lt(1, data_type::f32, sizes {2, 4}, sizes {4, 1})));
    EXPECT_FALSE(a.is_equal(lt(1, data_type::f32, sizes {2, 3}, sizes {4, 1})));
    EXPECT_FALSE(
            a.is_equal(lt(1, data_type::f32, sizes {2, 3}, layout_type::any)));
}

TEST(names, are_those_of_the_files) {
    EXPECT_STREQ(to_string(status::invalid_shape), "invalid_shape");
    EXPECT_STREQ(to_string(data_type::bf16), "bf16");
    EXPECT_STREQ(to_string(engine::kind::gpu), "gpu");
    EXPECT_STREQ(to_string(op::attr::coordinate_transformation_mode),
            "coordinate_transformation_mode");
    std::set<std::string> kinds;
    for (const detail::op_schema &schema : detail::all_schemas()) {
        EXPECT_STREQ(to_string(schema.kind), schema.name);
        kinds.insert(schema.name);
    }
    EXPECT_EQ(kinds,
            (std::set<std::string> {"Add", "BiasAddBackward", "ConvBackward",
                    "ConvTransposeBackward", "ConvTransposeBackwardData",
                    "ConvTransposeBackwardWeights", "ConvolutionBackwardData",
                    "ConvolutionBackwardWeights", "Interpolate",
                    "InterpolateBackward", "ReLUBackward"}));
}

TEST(error_api, carries_status_and_message) {
    try {
        engine(engine::kind::cpu, 7);
        FAIL();
    } catch (const error &failure) {
        const error copy = failure; // NOLINT: the copy is what is tested
        EXPECT_EQ(copy.status, status::invalid_arguments);
        EXPECT_STREQ(copy.what(), copy.message);
        EXPECT_NE(std::string(copy.message).find('7'), std::string::npos);
    }
}

TEST(engine_api, handles) {
    EXPECT_EQ(engine::get_count(engine::kind::cpu), 1U);
    const engine a(engine::kind::cpu, 0);
    const engine copy = a; // NOLINT
    EXPECT_EQ(a, copy);
    EXPECT_EQ(a.get_kind(), engine::kind::cpu);
    EXPECT_EQ(a.get_index(), 0U);
    EXPECT_FALSE(engine());
    const stream s(a);
    EXPECT_EQ(s.get_engine(), a);
    EXPECT_FALSE(stream());
    EXPECT_NO_THROW(stream(a, stream::flags::out_of_order).wait());
}

// On a machine or in a build without a GPU: a clear answer, and the CPU works.
TEST(engine_api, gpu_answers_clearly_where_there_is_none) {
    if (engine::get_count(engine::kind::gpu) > 0)
        GTEST_SKIP() << "this machine has a GPU";
    try {
        engine(engine::kind::gpu, 0);
        FAIL() << "made an engine of a GPU that is not there";
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::unimplemented);
        EXPECT_NE(std::string(failure.what()).find("gpu"), std::string::npos)
                << failure.what();
    }
    graph g(engine::kind::gpu);
    g.add_op(samples::relu(0, 0, 1, 2));
    g.finalize();
    const partition p = g.get_partitions().at(0);
    EXPECT_FALSE(p.is_supported());
    EXPECT_FALSE(p.unsupported_reason().empty());
}

TEST(graph_api, partitions_in_an_order_that_runs) {
    graph g(engine::kind::cpu);
    // 3 -> 2 -> 1 by their edges.
    g.add_op(samples::relu(1, 0, 12, 13));
    g.add_op(samples::relu(2, 0, 11, 12));
    g.add_op(samples::relu(3, 0, 10, 11));
    EXPECT_FALSE(g.is_finalized());
    g.finalize();
    EXPECT_TRUE(g.is_finalized());
    EXPECT_EQ(g.get_partition_count(), 3U);
    std::vector<size_t> order;
    std::set<size_t> ids;
    for (const partition &p : g.get_partitions()) {
        EXPECT_EQ(p.get_ops_num(), 1U);
        EXPECT_EQ(p.get_engine_kind(), engine::kind::cpu);
        EXPECT_TRUE(p.is_supported());
        EXPECT_EQ(p.unsupported_reason(), "");
        order.push_back(p.get_ops().at(0));
        ids.insert(p.get_id());
    }
    EXPECT_EQ(order, (std::vector<size_t> {3, 2, 1}));
    EXPECT_EQ(ids.size(), 3U);
    EXPECT_EQ(g.get_partitions(partition::policy::debug).size(), 3U);
}

TEST(graph_api, ports) {
    const op conv = convolution_op(op::kind::ConvBackward,
            convolution_named("plain_2d"), layouts()[0], data_type::f32,
            {true, false, true});
    const partition p = partition_of(conv, engine::kind::cpu);
    std::vector<size_t> ids;
    for (const lt &port : p.get_input_ports())
        ids.push_back(port.get_id());
    EXPECT_EQ(ids, (std::vector<size_t> {1, 0, 2}));
    ids.clear();
    for (const lt &port : p.get_output_ports())
        ids.push_back(port.get_id());
    EXPECT_EQ(ids, (std::vector<size_t> {3, 5}));
}

TEST(graph_api, single_op_partition_without_a_graph) {
    const partition p(samples::relu(4, 0, 1, 2), engine::kind::cpu);
    EXPECT_TRUE(p.is_supported());
    EXPECT_EQ(p.get_ops(), (std::vector<size_t> {4}));
    const op bad(5, op::kind::InterpolateBackward,
            {lt(0, data_type::f32, sizes {1, 1, 4}, layout_type::strided),
                    lt(1, data_type::f32, sizes {1, 1, 8},
                            layout_type::strided)},
            {lt(2, data_type::f32, layout_type::any)});
    const partition refused(bad, engine::kind::cpu);
    EXPECT_FALSE(refused.is_supported());
    EXPECT_NE(refused.unsupported_reason().find("mode"), std::string::npos)
            << refused.unsupported_reason();
    EXPECT_THROW(refused.compile(bad.get_inputs(), bad.get_outputs(),
                         shared_engine(engine::kind::cpu)),
            error);
}

TEST(graph_api, deterministic_is_the_default) {
    graph g(engine::kind::cpu, fpmath_mode::any);
    EXPECT_TRUE(g.get_deterministic());
    g.set_deterministic(false);
    EXPECT_FALSE(g.get_deterministic());
}

TEST(graph_api, fpmath_mode) {
    graph g(engine::kind::cpu);
    EXPECT_EQ(g.get_fpmath_mode(), fpmath_mode::strict);
    g.set_fpmath_mode(fpmath_mode::bf16);
    EXPECT_EQ(g.get_fpmath_mode(), fpmath_mode::bf16);
}

TEST(op_api, attributes_replace_and_ports_append) {
    op the_op(3, op::kind::Add, "sum");
    the_op.add_input(lt(0, data_type::f32));
    the_op.add_inputs({lt(1, data_type::f32)});
    the_op.add_output(lt(2, data_type::f32));
    EXPECT_EQ(the_op.get_inputs().size(), 2U);
    EXPECT_EQ(the_op.get_outputs().size(), 1U);
    EXPECT_EQ(the_op.get_name(), "sum");
    the_op.set_attr(op::attr::groups, int64_t {2})
            .set_attr(op::attr::groups, int64_t {3});
    EXPECT_EQ(std::get<int64_t>(the_op.get_attrs().at(op::attr::groups)), 3);
}

TEST(op_api, attributes_of_plain_literals) {
    op the_op(0, op::kind::ConvolutionBackwardData);
    the_op.set_attr(op::attr::groups, 2)
            .set_attr(op::attr::data_format, "NCX")
            .set_attr(op::attr::use_dst, true);
    const auto &attrs = the_op.get_attrs();
    EXPECT_EQ(std::get<int64_t>(attrs.at(op::attr::groups)), 2);
    EXPECT_EQ(std::get<std::string>(attrs.at(op::attr::data_format)), "NCX");
    EXPECT_TRUE(std::get<bool>(attrs.at(op::attr::use_dst)));
}

TEST(version_api, is_that_of_the_header) {
    EXPECT_EQ(version().major, version_major);
    EXPECT_EQ(version().minor, version_minor);
    EXPECT_EQ(version().patch, version_patch);
    EXPECT_TRUE(version_agrees());
}

/// Whether set_attr takes a value of the type: nothing that would be cut.
template <typename Value, typename = void>
struct is_settable : std::false_type {};
template <typename Value>
struct is_settable<Value,
        std::void_t<decltype(std::declval<op &>().set_attr(
                op::attr::undef, std::declval<Value>()))>> : std::true_type {};
static_assert(is_settable<int>::value && is_settable<const char *>::value
        && is_settable<int64_t>::value && is_settable<bool>::value);
static_assert(!is_settable<double>::value && !is_settable<unsigned>::value
        && !is_settable<long long>::value
        && !is_settable<std::vector<int>>::value);

} // namespace
} // namespace gradnn::test
