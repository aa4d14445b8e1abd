// What graph::add_op refuses in an op's ports: shapes, data types, ports that
// are missing or too many. Status and message.
#include <limits>

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using namespace samples;

constexpr int64_t huge = std::numeric_limits<int64_t>::max();

std::vector<error_row> rows() {
    using s = status;
    return {
            // Shapes.
            {"batches_disagree",
                    convolution_of({2, 6, 7, 7}, {1, 4, 9, 9}, {6, 4, 3, 3}),
                    s::invalid_shape, {"ConvBackward", "batch"}},
            {"channels_disagree",
                    convolution_of({1, 5, 7, 7}, {1, 4, 9, 9}, {6, 4, 3, 3}),
                    s::invalid_shape, {"channels", "[6, 4, 3, 3]"}},
            {"window_does_not_fit",
                    convolution_of({1, 6, 8, 7}, {1, 4, 9, 9}, {6, 4, 3, 3}),
                    s::invalid_shape, {"axis 0", "9", "8", "kernel 3"}},
            {"kernel_larger_than_src",
                    convolution_of({1, 6, 1, 1}, {1, 4, 2, 2}, {6, 4, 3, 3}),
                    s::invalid_shape, {"kernel 3"}},
            {"kernel_of_zero",
                    convolution_of({1, 6, 9, 9}, {1, 4, 9, 9}, {6, 4, 0, 3}),
                    s::invalid_shape, {"kernel", "positive"}},
            {"ranks_disagree",
                    convolution_of({1, 6, 7, 7}, {1, 4, 9}, {6, 4, 3, 3}),
                    s::invalid_shape, {"dims", "agree"}},
            {"rank_too_low",
                    [] {
                        add(interpolation({f32(0, {1, 4}), f32(1, {1, 8})},
                                {f32(2, {1, 4})}));
                    },
                    s::invalid_shape, {"input 0 (src)", "2 dims", "3 to 5"}},
            {"rank_too_high",
                    [] {
                        add(interpolation({f32(0, {1, 1, 2, 2, 2, 2}),
                                                  f32(1, {1, 1, 4, 4, 4, 4})},
                                {f32(2, {1, 1, 2, 2, 2, 2})}));
                    },
                    s::invalid_shape, {"input 0 (src)", "6 dims", "3 to 5"}},
            {"interpolation_channels_disagree",
                    [] {
                        add(interpolation(
                                {f32(0, {1, 2, 4, 4}), f32(1, {1, 3, 8, 8})},
                                {f32(2, {1, 2, 4, 4})}));
                    },
                    s::invalid_shape, {"diff_dst", "[1, 3, 8, 8]", "agree"}},
            {"output_dims_wrong",
                    [] {
                        add(interpolation(
                                {f32(0, {1, 2, 4, 4}), f32(1, {1, 2, 8, 8})},
                                {f32(2, {1, 2, 4, 5})}));
                    },
                    s::invalid_shape,
                    {"output 0 (diff_src)", "[1, 2, 4, 5]", "[1, 2, 4, 4]"}},
            {"add_of_different_shapes",
                    [] {
                        add({1, op::kind::Add, {f32(0, {2, 3}), f32(1, {2})},
                                {f32(2, {2, 3})}});
                    },
                    s::invalid_shape, {"Add", "src_0", "[2, 3]", "[2]"}},
            {"bias_of_wrong_size",
                    [] {
                        add({1, op::kind::BiasAddBackward, {f32(0, {2, 3, 5})},
                                {f32(1, {3})}});
                    },
                    s::invalid_shape, {"diff_bias", "[3]", "[5]"}},
            {"dims_negative",
                    [] {
                        add({1, op::kind::Add, {f32(0, {-2}), f32(1, {-2})},
                                {f32(2, {-2})}});
                    },
                    s::invalid_shape, {"[-2]", "negative"}},
            {"dims_overflow",
                    [] {
                        const sizes dims {int64_t {1} << 40, int64_t {1} << 40};
                        add({1, op::kind::Add, {f32(0, dims), f32(1, dims)},
                                {f32(2, dims)}});
                    },
                    s::invalid_shape, {"input 0", "63 bits"}},
            {"strides_overflow",
                    [] {
                        const lt wide(0, data_type::f64, sizes {2, 2},
                                sizes {huge / 2, 1});
                        const lt plain(1, data_type::f64, sizes {2, 2},
                                layout_type::strided);
                        const lt out(2, data_type::f64, sizes {2, 2},
                                layout_type::strided);
                        add({1, op::kind::Add, {wide, plain}, {out}});
                    },
                    s::invalid_shape, {"input 0", "63 bits"}},
            {"strides_negative_of_a_tensor",
                    [] {
                        const lt backwards(
                                1, data_type::f32, sizes {4}, sizes {-1});
                        add({1, op::kind::Add, {f32(0, {4}), backwards},
                                {f32(2, {4})}});
                    },
                    s::invalid_shape, {"input 1", "[-1]", "negative"}},
            {"output_elements_overlap",
                    [] {
                        const lt folded(
                                2, data_type::f32, sizes {2, 3}, sizes {2, 1});
                        add({1, op::kind::Add, {f32(0, {2, 3}), f32(1, {2, 3})},
                                {folded}});
                    },
                    s::invalid_shape, {"output 0", "[2, 1]", "overlap"}},
            {"output_broadcast",
                    [] {
                        const lt folded(
                                2, data_type::f32, sizes {2, 3}, sizes {0, 1});
                        add({1, op::kind::Add, {f32(0, {2, 3}), f32(1, {2, 3})},
                                {folded}});
                    },
                    s::invalid_shape, {"output 0", "overlap"}},
            {"opaque_layout",
                    [] {
                        const lt opaque(
                                0, data_type::f32, sizes {4}, size_t {3});
                        add({1, op::kind::Add, {opaque, f32(1, {4})},
                                {f32(2, {4})}});
                    },
                    s::invalid_graph_op, {"input 0", "opaque", "strided"}},

            // Ports.
            {"input_missing",
                    [] {
                        add(op(1, op::kind::Add, {f32(0, {4})}, {f32(2, {4})}));
                    },
                    s::invalid_graph_op, {"Add", "input 1", "missing"}},
            {"input_absent",
                    [] {
                        add(convolution({f32(0, {1, 6, 7, 7}), lt(),
                                                f32(2, {6, 4, 3, 3})},
                                {f32(3, {1, 4, 9, 9})}));
                    },
                    s::invalid_graph_op, {"input 1 (src)", "missing"}},
            {"too_many_inputs",
                    [] {
                        add(op(1, op::kind::Add,
                                {f32(0, {4}), f32(1, {4}), f32(5, {4})},
                                {f32(2, {4})}));
                    },
                    s::invalid_graph_op, {"3 inputs", "2"}},
            {"output_missing",
                    [] {
                        add(op(1, op::kind::Add, {f32(0, {4}), f32(1, {4})},
                                {}));
                    },
                    s::invalid_graph_op, {"Add", "output 0", "missing"}},
            {"no_output_wanted",
                    [] { add(convolution(convolution().get_inputs(), {})); },
                    s::invalid_graph_op, {"ConvBackward", "output"}},
            {"too_many_outputs",
                    [] {
                        add(op(1, op::kind::Add, {f32(0, {4}), f32(1, {4})},
                                {f32(2, {4}), f32(3, {4})}));
                    },
                    s::invalid_graph_op, {"2 outputs", "1"}},
            {"no_such_kind", [] { add(op(1, static_cast<op::kind>(99))); },
                    s::invalid_graph_op, {"op 1", "99"}},

            // Data types of the other ops.
            {"conv_types_mixed",
                    [] {
                        add(convolution({f32(0, {1, 6, 7, 7}),
                                                lt(1, data_type::bf16,
                                                        sizes {1, 4, 9, 9},
                                                        layout_type::strided),
                                                f32(2, {6, 4, 3, 3})},
                                {f32(3, {1, 4, 9, 9})}));
                    },
                    s::invalid_data_type, {"input 1 (src)", "bf16", "f32"}},
            {"f64_weights_gradient_of_f32",
                    [] {
                        add(convolution(convolution().get_inputs(),
                                {lt(),
                                        lt(4, data_type::f64,
                                                sizes {6, 4, 3, 3},
                                                layout_type::strided)}));
                    },
                    s::invalid_data_type,
                    {"output 1 (diff_weights)", "f64", "f32"}},
            {"f16_weights_gradient_of_bf16",
                    [] {
                        const auto bf16 = [](size_t id, const sizes &dims) {
                            return lt(id, data_type::bf16, dims,
                                    layout_type::strided);
                        };
                        add(convolution(
                                {bf16(0, {1, 6, 7, 7}), bf16(1, {1, 4, 9, 9}),
                                        bf16(2, {6, 4, 3, 3})},
                                {lt(),
                                        lt(4, data_type::f16,
                                                sizes {6, 4, 3, 3},
                                                layout_type::strided)}));
                    },
                    s::invalid_data_type,
                    {"output 1 (diff_weights)", "f16", "bf16 or f32"}},
            {"f32_diff_src_of_bf16",
                    [] {
                        const auto bf16 = [](size_t id, const sizes &dims) {
                            return lt(id, data_type::bf16, dims,
                                    layout_type::strided);
                        };
                        add(convolution(
                                {bf16(0, {1, 6, 7, 7}), bf16(1, {1, 4, 9, 9}),
                                        bf16(2, {6, 4, 3, 3})},
                                {f32(3, {1, 4, 9, 9})}));
                    },
                    s::invalid_data_type, {"output 0 (diff_src)", "f32"}},
            {"integer_relu",
                    [] {
                        const auto s32 = [](size_t id) {
                            return lt(id, data_type::s32, sizes {4},
                                    layout_type::strided);
                        };
                        add(op(1, op::kind::ReLUBackward, {s32(0), s32(1)},
                                {s32(2)}));
                    },
                    s::invalid_data_type, {"ReLUBackward", "s32", "f64"}},
    };
}

class port_errors : public testing::TestWithParam<error_row> {};

TEST_P(port_errors, are_named) {
    expect_error(GetParam());
}

INSTANTIATE_TEST_SUITE_P(table, port_errors, testing::ValuesIn(rows()),
        [](const auto &each) { return each.param.name; });

} // namespace
} // namespace gradnn::test
