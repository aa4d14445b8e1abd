// BiasAddBackward: every shape x data type x layout x kernel, f32 diff_bias
// from bf16 and f16, and sums long enough to show a bad accumulation.
//
// ctest: thousands of short tests, to be one test of ctest (WHOLE).
#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

// Beside the shapes of the suite: what the GPU's kernels split differently.
const std::vector<plane_case> &bias_cases() {
    static const std::vector<plane_case> cases = [] {
        std::vector<plane_case> all = plane_cases();
        const std::vector<plane_case> more {
                // Rows of whole vectors, shorter than a warp's loads at once.
                {"short_rows", {9, 6, 24, 24}},
                // Rows that begin within a vector, each elsewhere.
                {"odd_rows", {5, 3, 33, 31}},
                {"odd_long_rows", {2, 2, 9001}},
                // Many rows of one channel, and one row.
                {"many_rows", {70, 2, 520}},
                {"one_row", {1, 3, 64, 40}},
                // Enough channels for a block each.
                {"filling_channels", {2, 530, 5, 8}},
                // Whole vectors, except at the end of the tensor.
                {"loose_end", {3, 67, 7, 9}},
                // Rows of 4, 8 and 16 vectors of some type.
                {"vectors", {3, 64, 9, 11}},
                {"many_vectors", {2, 256, 5, 7}},
                {"tiny_planes", {40, 33, 2, 5}},
                // Images of several blocks of planes.
                {"planes_in_blocks", {70, 230, 3, 5}},
                // Rows of NXC that are wider than a block.
                {"wide_channels", {3, 2100, 2, 3}},
        };
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }();
    return cases;
}

std::vector<conformance_param> conformance() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "bias"))
            for (const plane_case &c : bias_cases())
                for (const data_type type : float_types())
                    for (const bool f32_gradients : {false, true})
                        for (const layout &l : layouts()) {
                            const bool half = type == data_type::bf16
                                    || type == data_type::f16;
                            if (f32_gradients && !half) continue;
                            params.push_back({kind, kernel,
                                    c.name + "_" + to_string(type)
                                            + (f32_gradients ? "_to_f32_" : "_")
                                            + l.name,
                                    plane_op(op::kind::BiasAddBackward, c, l,
                                            type, f32_gradients)});
                        }
    return params;
}

class bias : public testing::TestWithParam<conformance_param> {};

TEST_P(bias, agrees_with_reference) {
    const conformance_param &p = GetParam();
    EXPECT_TRUE(run_forced(
            p.the_op, shared_engine(p.on), p.kernel, seed_of(p.op_name)));
}

INSTANTIATE_TEST_SUITE_P(conformance, bias, testing::ValuesIn(conformance()),
        [](const auto &each) { return conformance_name(each.param); });

class bias_ops : public testing::TestWithParam<engine::kind> {};

// A million ones: a sum in bf16 would stop at 256, in f16 at 2048, a naive one
// in f32 is off by rounding once the total passes 2^24.
TEST_P(bias_ops, long_sums) {
    const engine e = shared_engine(GetParam());
    const plane_case c {"long", {4, 2, 512, 256}};
    for (const data_type type : float_types())
        for (const size_t which : {0U, 1U}) {
            const bool half = type == data_type::bf16 || type == data_type::f16;
            const op the_op = plane_op(
                    op::kind::BiasAddBackward, c, layouts()[which], type, half);
            values_list inputs = random_inputs(the_op, 31);
            for (double &value : inputs[0])
                value = value * 0.5 + 1.0;
            op_run r(the_op, e, inputs);
            r.execute();
            r.expect_right();
        }
}

// No spatial axis at all: the gradient of a linear layer's bias.
TEST_P(bias_ops, rank_two) {
    const engine e = shared_engine(GetParam());
    using lt = logical_tensor;
    for (const char *format : {"NCX", "NXC"})
        for (const data_type type : float_types()) {
            op the_op(0, op::kind::BiasAddBackward,
                    {lt(0, type, sizes {9, 21}, layout_type::strided)},
                    {lt(1, type, sizes {21}, layout_type::strided)});
            the_op.set_attr<std::string>(op::attr::data_format, format);
            op_run r(the_op, e, random_inputs(the_op, 32));
            r.execute();
            r.expect_right();
        }
}

// NXC is the default.
TEST_P(bias_ops, default_format) {
    const engine e = shared_engine(GetParam());
    using lt = logical_tensor;
    const op the_op(0, op::kind::BiasAddBackward,
            {lt(0, data_type::f32, sizes {2, 3, 4, 5}, layout_type::strided)},
            {lt(1, data_type::f32, sizes {5}, layout_type::strided)});
    op_run r(the_op, e, random_inputs(the_op, 33));
    r.execute();
    r.expect_right();
}

INSTANTIATE_TEST_SUITE_P(engines, bias_ops, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
