// Empty tensors: legal everywhere; outputs that have elements are sums over
// nothing, so 0.
#include <gtest/gtest.h>

#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

class empty_tensors : public testing::TestWithParam<engine::kind> {
protected:
    void run(const op &the_op) const {
        const engine e = shared_engine(GetParam());
        op_run r(the_op, e, random_inputs(the_op, 41));
        r.execute();
        r.expect_right();
        for (size_t index = 0; index < the_op.get_outputs().size(); ++index)
            for (const double value : r.output(index))
                ASSERT_EQ(value, 0.0);
        // Tensors without elements need no memory.
        auto inputs = r.input_tensors();
        auto outputs = r.output_tensors();
        for (auto *list : {&inputs, &outputs})
            for (tensor &t : *list)
                if (t.get_logical_tensor().get_mem_size() == 0)
                    t.set_data_handle(nullptr);
        stream s(e);
        r.compiled().execute(s, inputs, outputs);
        s.wait();
    }
};

TEST_P(empty_tensors, interpolation) {
    for (const data_type type : float_types())
        for (const size_t which : {0U, 1U})
            for (const interpolation_case &c : {
                         interpolation_case {"no_batch", 0, 3, {4, 5}, {8, 9}},
                         interpolation_case {
                                 "no_channels", 2, 0, {4, 5}, {8, 9}},
                         interpolation_case {"no_dst", 2, 3, {4, 5}, {0, 9}},
                         interpolation_case {"nothing", 0, 0, {0, 0}, {0, 0}},
                         interpolation_case {
                                 "no_dst_3d", 1, 2, {3, 4, 5}, {6, 8, 0}},
                 }) {
                SCOPED_TRACE(c.name);
                run(interpolation_op(
                        c, {"linear", "half_pixel"}, layouts()[which], type));
                run(interpolation_op(
                        c, {"nearest", "asymmetric"}, layouts()[which], type));
            }
}

TEST_P(empty_tensors, convolution) {
    for (const op::kind kind : convolution_kinds())
        for (const data_type type : float_types())
            for (const size_t which : {0U, 1U}) {
                SCOPED_TRACE(to_string(kind));
                convolution_case c = convolution_named("plain_2d");
                c.n = 0;
                run(convolution_op(kind, c, layouts()[which], type));
                c = convolution_named("plain_2d");
                c.large_channels = 0;
                // diff_bias and the like still are sums over something.
                if (kind != op::kind::ConvBackward
                        && kind != op::kind::ConvTransposeBackward)
                    run(convolution_op(kind, c, layouts()[which], type));
            }
}

TEST_P(empty_tensors, bias_and_elementwise) {
    for (const op::kind kind :
            {op::kind::BiasAddBackward, op::kind::ReLUBackward, op::kind::Add})
        for (const data_type type : float_types())
            for (const sizes &dims : {sizes {0, 3, 4}, sizes {2, 0, 4},
                         sizes {2, 3, 0}, sizes {0, 0, 0, 0}}) {
                SCOPED_TRACE(to_string(kind));
                run(plane_op(kind, {"empty", dims}, layouts()[0], type));
            }
}

TEST_P(empty_tensors, memory_size) {
    const logical_tensor lt(
            0, data_type::f32, sizes {2, 0, 3}, layout_type::strided);
    EXPECT_EQ(lt.get_mem_size(), 0U);
    EXPECT_EQ(lt.get_strides(), (sizes {3, 3, 1}));
}

INSTANTIATE_TEST_SUITE_P(engines, empty_tensors,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
