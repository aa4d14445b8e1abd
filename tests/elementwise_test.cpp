// ReLUBackward and Add: every shape x data type x layout x kernel, and the
// values that random data do not reach.
//
// ctest: thousands of short tests, to be one test of ctest (WHOLE).
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

std::vector<conformance_param> conformance() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "elementwise"))
            for (const op::kind op_kind :
                    {op::kind::ReLUBackward, op::kind::Add})
                for (const plane_case &c : plane_cases())
                    for (const data_type type : float_types())
                        for (const layout &l : layouts())
                            params.push_back({kind, kernel,
                                    std::string(to_string(op_kind)) + "_"
                                            + c.name + "_" + to_string(type)
                                            + "_" + l.name,
                                    plane_op(op_kind, c, l, type)});
    return params;
}

class elementwise : public testing::TestWithParam<conformance_param> {};

TEST_P(elementwise, agrees_with_reference) {
    const conformance_param &p = GetParam();
    EXPECT_TRUE(run_forced(
            p.the_op, shared_engine(p.on), p.kernel, seed_of(p.op_name)));
}

INSTANTIATE_TEST_SUITE_P(conformance, elementwise,
        testing::ValuesIn(conformance()),
        [](const auto &each) { return conformance_name(each.param); });

class elementwise_ops : public testing::TestWithParam<engine::kind> {};

op of_dims(op::kind kind, const sizes &dims, data_type type) {
    using lt = logical_tensor;
    return {0, kind,
            {lt(0, type, dims, layout_type::strided),
                    lt(1, type, dims, layout_type::strided)},
            {lt(2, type, dims, layout_type::strided)}};
}

TEST_P(elementwise_ops, any_rank) {
    const engine e = shared_engine(GetParam());
    for (const op::kind kind : {op::kind::ReLUBackward, op::kind::Add})
        for (const data_type type : float_types())
            for (const sizes &dims : {sizes {}, sizes {1}, sizes {1000},
                         sizes {3, 1, 2, 2, 1, 2, 3, 1, 2, 1, 2, 5}}) {
                const op the_op = of_dims(kind, dims, type);
                op_run r(the_op, e, random_inputs(the_op, 21));
                r.execute();
                r.expect_right();
            }
}

op broadcast_add(const sizes &a, const sizes &b, const sizes &out,
        data_type type, const char *rule) {
    using lt = logical_tensor;
    op result(0, op::kind::Add,
            {lt(0, type, a, layout_type::strided),
                    lt(1, type, b, layout_type::strided)},
            {lt(2, type, out, layout_type::any)});
    return result.set_attr(op::attr::auto_broadcast, rule);
}

TEST_P(elementwise_ops, add_broadcasts_as_numpy_does) {
    const engine e = shared_engine(GetParam());
    struct shapes {
        sizes a, b, out;
    };
    for (const shapes &s : {shapes {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}},
                 shapes {{2, 3, 4}, {4}, {2, 3, 4}},
                 shapes {{3, 1}, {2, 1, 5}, {2, 3, 5}},
                 shapes {{}, {7, 9}, {7, 9}}, shapes {{1}, {1, 1}, {1, 1}},
                 shapes {{2, 1, 3, 1, 2}, {1, 2, 1, 4, 1}, {2, 2, 3, 4, 2}},
                 shapes {{64, 1, 33}, {65, 1}, {64, 65, 33}},
                 shapes {{1, 3}, {0, 3}, {0, 3}}})
        for (const data_type type : float_types()) {
            const op the_op = broadcast_add(s.a, s.b, s.out, type, "numpy");
            op_run r(the_op, e, random_inputs(the_op, 22));
            r.execute();
            r.expect_right();
            // Memory that is not as large as the output is no place for it.
            for (const auto &[in, out] : r.compiled().get_inplace_ports())
                EXPECT_EQ(r.compiled().query_logical_tensor(in).get_dims(),
                        s.out);
        }
}

TEST_P(elementwise_ops, add_refuses_what_does_not_broadcast) {
    const auto refused = [](const op &the_op) {
        return graph(engine::kind::cpu).add_op(the_op, false)
                == status::invalid_shape;
    };
    using types = data_type;
    EXPECT_TRUE(
            refused(broadcast_add({2, 3}, {2}, {2, 3}, types::f32, "numpy")));
    EXPECT_TRUE(refused(
            broadcast_add({2, 3}, {1, 3}, {2, 4}, types::f32, "numpy")));
    EXPECT_TRUE(
            refused(broadcast_add({2, 3}, {1, 3}, {2, 3}, types::f32, "none")));
    EXPECT_FALSE(
            refused(broadcast_add({2, 3}, {2, 3}, {2, 3}, types::f32, "None")));
}

// Where src > 0 the gradient passes, whatever it is; where it is not (0, -0,
// below, NaN), 0 comes out, and never NaN * 0.
TEST_P(elementwise_ops, relu_at_the_edges) {
    const engine e = shared_engine(GetParam());
    const double inf = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const data_type type : float_types())
        for (const bool use_dst : {true, false}) {
            op the_op = of_dims(op::kind::ReLUBackward, {11}, type);
            the_op.set_attr(op::attr::use_dst, use_dst);
            op_run r(the_op, e,
                    {{0, -0.0, 1, -1, inf, -inf, nan, 2, -2, 2, 0x1p-14},
                            {5, 5, 5, 5, 5, 5, 5, nan, nan, -inf, 3}});
            r.execute();
            const auto out = r.output(0);
            const std::vector<double> expected {
                    0, 0, 5, 0, 5, 0, 0, nan, 0, -inf, 3};
            for (size_t i = 0; i < expected.size(); ++i) {
                if (std::isnan(expected[i]))
                    EXPECT_TRUE(std::isnan(out[i])) << i;
                else
                    EXPECT_EQ(out[i], expected[i]) << i;
            }
        }
}

TEST_P(elementwise_ops, add_rounds_once) {
    const engine e = shared_engine(GetParam());
    for (const data_type type : {data_type::f16, data_type::bf16}) {
        const double ulp = type == data_type::f16 ? 0x1p-10 : 0x1p-7;
        const op the_op = of_dims(op::kind::Add, {4}, type);
        op_run r(the_op, e,
                {{1, 1 + ulp, 1, -1},
                        {ulp / 2, ulp / 2, ulp / 2 + ulp / 64, 1}});
        r.execute();
        EXPECT_EQ(r.output(0),
                (std::vector<double> {1, 1 + 2 * ulp, 1 + ulp, 0}));
    }
}

// One tensor may be both inputs.
TEST_P(elementwise_ops, add_of_a_tensor_to_itself) {
    const engine e = shared_engine(GetParam());
    const logical_tensor lt(
            0, data_type::f32, sizes {37}, layout_type::strided);
    const op the_op(0, op::kind::Add, {lt, lt},
            {logical_tensor(
                    2, data_type::f32, sizes {37}, layout_type::strided)});
    const auto compiled = partition_of(the_op, GetParam())
                                  .compile({lt}, the_op.get_outputs(), e);
    test_tensor in(lt, e, test_tensor::role::input);
    test_tensor out(the_op.get_outputs()[0], e, test_tensor::role::output);
    std::vector<double> values(37);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(i);
    in.store(values);
    stream s(e);
    compiled.execute(s, {in.get()}, {out.get()});
    s.wait();
    for (size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(out.load()[i], 2 * values[i]);
}

INSTANTIATE_TEST_SUITE_P(engines, elementwise_ops,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
