// The six convolution ops: every shape x data type x layout x kernel, against
// the float64 reference.
//
// ctest: thousands of short tests, to be one test of ctest (WHOLE).
#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"
#include "support/random.hpp"

namespace gradnn::test {
namespace {

/// Kernels of depthwise convolutions refuse all others, which each_accepts_many
/// sees once; here it would be most of what they are asked.
bool may_take(const std::string &kernel, const convolution_case &c) {
    return kernel.find("depthwise") == std::string::npos
            || (c.groups == c.large_channels && c.groups == c.small_channels);
}

std::vector<conformance_param> conformance() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "convolution"))
            for (const convolution_case &c : convolution_cases())
                for (const op::kind op_kind : convolution_kinds())
                    for (const data_type type : float_types())
                        for (const layout &l : layouts()) {
                            const auto index = &c - convolution_cases().data();
                            const bool dense
                                    = l.name == "ncx" || l.name == "nxc";
                            if (!may_take(kernel, c)
                                    || (!dense && !c.every_layout))
                                continue;
                            if (dense ? thinned_out(index, type)
                                      : thinned() && type != data_type::f32)
                                continue;
                            // One of two layouts, of neighbouring cases and of
                            // those of a type in turn.
                            const auto turn = index
                                    + index / std::ssize(float_types())
                                    + (&l - layouts().data());
                            if (thinned() && dense && turn % 2 != 0) continue;
                            params.push_back({kind, kernel,
                                    std::string(to_string(op_kind)) + "_"
                                            + c.name + "_" + to_string(type)
                                            + "_" + l.name,
                                    convolution_op(op_kind, c, l, type,
                                            outputs_of(kernel, type))});
                        }
    return params;
}

class convolution : public testing::TestWithParam<conformance_param> {};

TEST_P(convolution, agrees_with_reference) {
    const conformance_param &p = GetParam();
    RecordProperty("ran",
            run_forced(
                    p.the_op, shared_engine(p.on), p.kernel, seed_of(p.op_name))
                    ? "yes"
                    : "refused");
}

INSTANTIATE_TEST_SUITE_P(conformance, convolution,
        testing::ValuesIn(conformance()),
        [](const auto &each) { return conformance_name(each.param); });

// Whatever kernels refuse, the library itself takes every case.
std::vector<conformance_param> chosen() {
    std::vector<conformance_param> params;
    for (const engine::kind kind : engine_kinds())
        for (const convolution_case &c : convolution_cases())
            for (const op::kind op_kind :
                    {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
                for (const data_type type : float_types())
                    for (const bool f32_gradients : {false, true}) {
                        const bool half = type == data_type::bf16
                                || type == data_type::f16;
                        if ((f32_gradients && !half)
                                || thinned_out(
                                        &c - convolution_cases().data(), type))
                            continue;
                        wanted_outputs wanted;
                        wanted.f32_gradients = f32_gradients;
                        params.push_back({kind, "",
                                std::string(to_string(op_kind)) + "_" + c.name
                                        + "_" + to_string(type)
                                        + (f32_gradients ? "_to_f32" : ""),
                                convolution_op(op_kind, c, layouts()[1], type,
                                        wanted)});
                    }
    return params;
}

INSTANTIATE_TEST_SUITE_P(chosen, convolution, testing::ValuesIn(chosen()),
        [](const auto &each) { return conformance_name(each.param); });

TEST(convolution_kernels, each_accepts_many) {
    // Some compute one of the gradients alone.
    const auto accepted_of = [](engine::kind kind, const std::string &kernel,
                                     data_type type) {
        size_t accepted = 0;
        for (const convolution_case &c : convolution_cases())
            for (const size_t which : {0U, 1U}) {
                const auto accepts_kind = [&](op::kind op_kind) {
                    return accepts(convolution_op(op_kind, c, layouts()[which],
                                           type, outputs_of(kernel, type)),
                            shared_engine(kind), kernel);
                };
                if (accepts_kind(op::kind::ConvBackward)
                        || accepts_kind(op::kind::ConvolutionBackwardData))
                    ++accepted;
            }
        return accepted;
    };
    for (const engine::kind kind : engine_kinds())
        for (const std::string &kernel : kernel_names(kind, "convolution")) {
            // Some take f64 alone, or 16 bits.
            size_t accepted = 0;
            for (const data_type type :
                    {data_type::f32, data_type::f64, data_type::bf16})
                if (accepted == 0) accepted = accepted_of(kind, kernel, type);
            // A build without oneDNN keeps the kernel's name and no kernel.
            if (accepted == 0 && kernel == "convolution.onednn") continue;
            EXPECT_GE(accepted,
                    kernel == "convolution.gemm"
                            ? 2 * convolution_cases().size()
                            : 4U)
                    << kernel;
        }
}

class convolution_ops : public testing::TestWithParam<engine::kind> {};

// Any subset of the outputs gives the values that all together give.
TEST_P(convolution_ops, any_subset_of_outputs) {
    const engine e = shared_engine(GetParam());
    for (const op::kind kind :
            {op::kind::ConvBackward, op::kind::ConvTransposeBackward})
        for (const char *name : {"grouped_2d", "strided_1d", "plain_3d"})
            for (int subset = 1; subset < 8; ++subset) {
                SCOPED_TRACE(std::string(to_string(kind)) + " " + name
                        + " outputs " + std::to_string(subset));
                const wanted_outputs wanted {(subset & 1) != 0,
                        (subset & 2) != 0, (subset & 4) != 0};
                const op the_op = convolution_op(kind, convolution_named(name),
                        layouts()[0], data_type::f32, wanted);
                const values_list inputs = random_inputs(the_op, 11);
                op_run part(the_op, e, inputs);
                part.execute();
                part.expect_right();
                const op all = convolution_op(kind, convolution_named(name),
                        layouts()[0], data_type::f32);
                op_run whole(all, e, inputs);
                whole.execute();
                for (size_t index = 0; index < 3; ++index)
                    if ((subset & 1 << index) != 0) {
                        EXPECT_EQ(part.output_bytes(index),
                                whole.output_bytes(index));
                    }
                EXPECT_EQ(part.compiled().get_info().steps.size(),
                        static_cast<size_t>((subset & 1) + (subset >> 1 & 1)
                                + (subset >> 2)));
            }
}

// A list of outputs that ends early stands for absent ones.
TEST_P(convolution_ops, trailing_outputs_may_be_left_out) {
    const engine e = shared_engine(GetParam());
    const op whole = convolution_op(op::kind::ConvBackward,
            convolution_named("plain_2d"), layouts()[0], data_type::f32);
    op the_op(1, op::kind::ConvBackward, whole.get_inputs(),
            {whole.get_outputs()[0]});
    for (const auto &[name, value] : whole.get_attrs())
        std::visit([&, key = name](const auto &v) { the_op.set_attr(key, v); },
                value);
    op_run r(the_op, e, random_inputs(the_op, 12));
    r.execute();
    r.expect_right();
}

// Attributes at their defaults: NXC, XIO or XOI, one group, no padding rule.
TEST_P(convolution_ops, defaults) {
    const engine e = shared_engine(GetParam());
    for (const op::kind kind : convolution_kinds()) {
        SCOPED_TRACE(to_string(kind));
        const op full = convolution_op(kind, convolution_named("plain_2d"),
                layouts()[1], data_type::f32);
        op bare(2, kind, full.get_inputs(), full.get_outputs());
        for (const auto &[name, value] : full.get_attrs()) {
            const bool required = name == op::attr::strides
                    || name == op::attr::dilations
                    || name == op::attr::pads_begin
                    || name == op::attr::pads_end;
            if (required)
                std::visit([&, key = name](
                                   const auto &v) { bare.set_attr(key, v); },
                        value);
        }
        const values_list inputs = random_inputs(full, 13);
        op_run with(full, e, inputs);
        op_run without(bare, e, inputs);
        with.execute();
        without.execute();
        without.expect_right();
        EXPECT_EQ(with.all_output_bytes(), without.all_output_bytes());
    }
}

// Attribute strings without regard to case; an output_padding that is longer
// than the spatial rank, filled with zeros, as real files have it.
TEST_P(convolution_ops, spelling_of_real_files) {
    const engine e = shared_engine(GetParam());
    for (const op::kind kind : convolution_kinds()) {
        SCOPED_TRACE(to_string(kind));
        op the_op = convolution_op(kind, convolution_named("plain_2d"),
                layouts()[0], data_type::f32);
        const bool transposed = std::string(to_string(kind)).find("Transpose")
                != std::string::npos;
        the_op.set_attr<std::string>(op::attr::auto_pad, "None");
        the_op.set_attr<std::string>(op::attr::data_format, "ncx");
        the_op.set_attr<std::string>(
                op::attr::weights_format, transposed ? "iOx" : "oiX");
        if (the_op.get_attrs().contains(op::attr::output_padding))
            the_op.set_attr(op::attr::output_padding, sizes {0, 0, 0, 0});
        op_run r(the_op, e, random_inputs(the_op, 14));
        r.execute();
        r.expect_right();
    }
}

// The shape attributes and shape inputs, where the op has them.
TEST_P(convolution_ops, shape_attributes_and_inputs) {
    const engine e = shared_engine(GetParam());
    for (const op::kind kind : {op::kind::ConvolutionBackwardData,
                 op::kind::ConvolutionBackwardWeights,
                 op::kind::ConvTransposeBackwardWeights})
        for (const char *name : {"strided_2d", "uneven_3d"})
            for (const size_t which : {0U, 1U}) {
                SCOPED_TRACE(std::string(to_string(kind)) + " " + name);
                const op plain = convolution_op(kind, convolution_named(name),
                        layouts()[which], data_type::bf16);
                const auto shape = plain.get_outputs()[0].get_dims();
                auto inputs = plain.get_inputs();
                inputs.emplace_back(9, data_type::s32,
                        sizes {static_cast<int64_t>(shape.size())},
                        layout_type::strided);
                op the_op(3, kind, inputs,
                        {logical_tensor(3, data_type::bf16, layout_type::any)});
                for (const auto &[key, value] : plain.get_attrs())
                    std::visit(
                            [&, key = key](
                                    const auto &v) { the_op.set_attr(key, v); },
                            value);
                the_op.set_attr(kind == op::kind::ConvolutionBackwardData
                                ? op::attr::dst_shape
                                : op::attr::weights_shape,
                        shape);
                const compiled_partition compiled = compile(the_op, e);
                EXPECT_EQ(compiled.query_logical_tensor(3).get_dims(), shape);
                values_list values = random_inputs(plain, 15);
                values.emplace_back(shape.begin(), shape.end());
                op_run r(the_op, compiled, e, values, {});
                r.execute();
                r.expect_right();
            }
}

// Values other than 0 behind padding must not leak: all ones, closed form.
TEST_P(convolution_ops, ones_count_the_windows) {
    const engine e = shared_engine(GetParam());
    for (const std::string &kernel : kernel_names(GetParam(), "convolution")) {
        const forced_kernel forced(kernel);
        const convolution_case &c = convolution_named("plain_2d");
        const op the_op = convolution_op(op::kind::ConvolutionBackwardData, c,
                layouts()[0], data_type::f32);
        values_list inputs = random_inputs(the_op, 16);
        for (auto &values : inputs)
            std::fill(values.begin(), values.end(), 1.0);
        std::optional<op_run> r;
        try {
            r.emplace(the_op, e, inputs);
        } catch (const error &) {
            continue;
        }
        r->execute();
        const auto out = r->output(0);
        size_t at = 0;
        for (int64_t nc = 0; nc < c.n * c.large_channels; ++nc)
            for (int64_t y = 0; y < 7; ++y)
                for (int64_t x = 0; x < 6; ++x, ++at) {
                    const int64_t rows = y == 0 || y == 6 ? 2 : 3;
                    const int64_t columns = x == 0 || x == 5 ? 2 : 3;
                    ASSERT_EQ(out[at],
                            static_cast<double>(
                                    rows * columns * c.small_channels))
                            << kernel << " element " << at;
                }
    }
}

INSTANTIATE_TEST_SUITE_P(engines, convolution_ops,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
