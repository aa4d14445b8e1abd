// The form of an op after its check: each word of a schema has a meaning,
// attributes are read once and shared, and compile checks again only what the
// caller adds.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "compile/cache_key.hpp"
#include "compile/executable.hpp"
#include "compile/partition.hpp"
#include "kernel/engine_impl.hpp"
#include "op/op_attributes.hpp"
#include "op/op_check.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using detail::checked;
using detail::checked_op;
using lt = logical_tensor;

op interpolation(const std::string &mode = "linear",
        layout_type output_layout = layout_type::strided) {
    op result(0, op::kind::InterpolateBackward,
            {lt(0, data_type::f32, sizes {1, 2, 4}, layout_type::strided),
                    lt(1, data_type::f32, sizes {1, 2, 8},
                            layout_type::strided)},
            {lt(2, data_type::f32, sizes {1, 2, 4}, output_layout)}, "up");
    result.set_attr<std::string>(op::attr::mode, mode);
    result.set_attr<std::string>(op::attr::data_format, "NCX");
    result.set_attr(op::attr::sizes, sizes {8});
    return result;
}

op convolution(op::kind kind) {
    return convolution_op(kind, convolution_named("strided_2d"),
            layouts().front(), data_type::f32);
}

/// An op of a kind that passes the check.
op valid_op(op::kind kind) {
    switch (kind) {
        case op::kind::InterpolateBackward: return interpolation("nearest");
        case op::kind::Interpolate: {
            interpolation_choice choice;
            choice.forward = true;
            return interpolation_op(interpolation_named("ragged_2d"), choice,
                    layouts().front(), data_type::f32);
        }
        case op::kind::Add:
        case op::kind::BiasAddBackward:
        case op::kind::ReLUBackward:
            return plane_op(kind, plane_cases().front(), layouts().front(),
                    data_type::f32);
        default: return convolution(kind);
    }
}

std::set<std::string> words_of(const std::string &allowed) {
    std::set<std::string> words;
    std::string word;
    for (const char letter : allowed + '|')
        if (letter != '|')
            word += letter;
        else {
            words.insert(word);
            word.clear();
        }
    return words;
}

std::string key_of(const checked_op &the_op) {
    // Without ports: what differs is an attribute.
    return detail::cache_key({{the_op.what, {}, {}}}, {}, engine::kind::cpu, 0,
            detail::compile_options());
}

// A word that is new in a schema without a meaning would throw logic_error;
// two words with one meaning are one key.
TEST(op_attributes, every_word_of_every_schema_has_a_meaning) {
    size_t tried = 0;
    for (const detail::op_schema &schema : detail::all_schemas())
        for (const detail::attr_row &row : schema.attrs) {
            if (row.type != detail::attr_type::string) continue;
            std::set<std::string> keys;
            const auto words = words_of(row.allowed);
            for (const std::string &word : words) {
                op the_op = valid_op(schema.kind);
                the_op.set_attr<std::string>(row.name, word);
                SCOPED_TRACE(std::string(schema.name) + " " + word);
                try {
                    keys.insert(key_of(checked(the_op)));
                } catch (const error &) {
                    // Not with the other attributes or the dims: it has a
                    // meaning, since that is looked up before.
                    keys.insert(word);
                }
                ++tried;
            }
            const size_t synonyms = row.name == op::attr::mode
                    ? 3
                    : 0; // bi-, trilinear, bicubic
            EXPECT_EQ(keys.size() + synonyms, words.size())
                    << schema.name << ' ' << to_string(row.name);
        }
    EXPECT_GT(tried, 50U);
}

TEST(op_attributes, are_typed_and_have_defaults) {
    op the_op = interpolation("NeaRest");
    the_op.set_attr<std::string>(op::attr::coordinate_arithmetic, "FLOAT32");
    const checked_op up = checked(the_op);
    EXPECT_EQ(up.attributes().mode, detail::interpolation_mode::nearest);
    EXPECT_EQ(
            up.attributes().arithmetic, detail::coordinate_arithmetic::float32);
    EXPECT_EQ(up.attributes().coordinates, detail::coordinate_mode::half_pixel);
    EXPECT_EQ(up.attributes().data_format, detail::data_format::ncx);
    ASSERT_EQ(up.attributes().sizes.size(), 1U);
    EXPECT_EQ(up.attributes().sizes[0], 8);
    EXPECT_TRUE(up.attributes().scales.empty());
    EXPECT_EQ(up.inputs.size(), 3U); // sizes, absent
    EXPECT_TRUE(up.inputs[2].is_absent());

    op conv = convolution(op::kind::ConvBackward);
    conv.set_attr<std::string>(op::attr::auto_pad, "SAME_LOWER");
    const auto read = detail::described(
            conv, *detail::find_schema(op::kind::ConvBackward));
    EXPECT_EQ(read->attributes.auto_pad, detail::padding_rule::same_lower);
    EXPECT_EQ(read->attributes.strides.size(), 2U);
    EXPECT_EQ(read->attributes.groups, 1);
}

TEST(op_attributes, lists_live_as_long_as_a_copy) {
    checked_op copy;
    {
        const checked_op first = checked(interpolation());
        copy = first;
        EXPECT_EQ(copy.what, first.what);
    }
    EXPECT_EQ(copy.attributes().sizes[0], 8);
}

/// What a partition and what is compiled from it share.
TEST(compile, does_not_read_attributes_again) {
    graph built(engine::kind::cpu);
    built.add_op(interpolation("linear", layout_type::any));
    built.finalize();
    const partition made = built.get_partitions().front();
    const op the_op = interpolation("linear", layout_type::any);
    const auto compiled = made.compile(the_op.get_inputs(),
            the_op.get_outputs(), shared_engine(engine::kind::cpu));
    const auto &declared = detail::access::impl(made)->ops.front();
    const auto &used = detail::access::impl(compiled)->ops.front();
    EXPECT_EQ(used.what, declared.what);
    EXPECT_EQ(declared.outputs[0].get_layout_type(), layout_type::any);
    EXPECT_EQ(used.outputs[0].get_layout_type(), layout_type::strided);
}

/// The message of a failure of compile.
std::string refusal(const op &the_op, const std::vector<lt> &inputs,
        const std::vector<lt> &outputs, status expected) {
    try {
        (void)partition(the_op, engine::kind::cpu)
                .compile(inputs, outputs, shared_engine(engine::kind::cpu));
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, expected);
        return failure.what();
    }
    ADD_FAILURE() << "compiled";
    return {};
}

// What compile adds to ports that were open, or changes, is checked, whether
// the rest was known before or not.
TEST(compile, checks_what_the_caller_adds) {
    const lt src(0, data_type::f32, sizes {1, 2, 4}, layout_type::strided);
    const lt diff_dst(1, data_type::f32, sizes {1, 2, 8}, layout_type::strided);
    const lt open(2, data_type::f32);
    op the_op(0, op::kind::InterpolateBackward, {src, diff_dst}, {open}, "up");
    the_op.set_attr<std::string>(op::attr::mode, "linear");
    the_op.set_attr<std::string>(op::attr::data_format, "NCX");
    the_op.set_attr(op::attr::sizes, sizes {8});
    const auto contains = [](const std::string &text, const char *part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    contains(refusal(the_op, {src, diff_dst},
                     {lt(2, data_type::f32, sizes {1, 2, 5},
                             layout_type::strided)},
                     status::invalid_shape),
            "output 0 (diff_src) has dims [1, 2, 5]; [1, 2, 4] are allowed, by "
            "input 0 (src)");
    contains(refusal(the_op, {src, diff_dst},
                     {lt(2, data_type::f32, sizes {1, 2, 4}, sizes {8, 0, 1})},
                     status::invalid_shape),
            "elements overlap");
    // Laid out when it was declared, and otherwise at compile.
    op closed(0, op::kind::InterpolateBackward, {src, diff_dst},
            {lt(2, data_type::f32, sizes {1, 2, 4}, layout_type::strided)});
    for (const auto &[name, value] : the_op.get_attrs())
        std::visit([&, key = name](const auto &v) { closed.set_attr(key, v); },
                value);
    contains(refusal(closed, {src, diff_dst},
                     {lt(2, data_type::f32, sizes {1, 2, 4}, sizes {8, 0, 1})},
                     status::invalid_shape),
            "elements overlap");
    contains(refusal(closed,
                     {src,
                             lt(1, data_type::f32, sizes {1, 2, 8},
                                     sizes {16, -8, 1})},
                     closed.get_outputs(), status::invalid_shape),
            "input 1 (diff_dst) has strides [16, -8, 1]; none may be negative");
}

// What is inferred comes from several ports: the message says so.
TEST(compile, says_what_inferred_dims_come_from) {
    const op full = convolution(op::kind::ConvolutionBackwardData);
    const lt &out = full.get_outputs()[0];
    auto dims = out.get_dims();
    dims[0] = lt::unknown_dim;
    ++dims[2];
    op wrong(0, full.get_kind(), full.get_inputs(),
            {lt(out.get_id(), data_type::f32, dims, layout_type::any)});
    for (const auto &[name, value] : full.get_attrs())
        std::visit([&, key = name](const auto &v) { wrong.set_attr(key, v); },
                value);
    try {
        (void)checked(wrong);
        FAIL() << "accepted";
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::invalid_shape);
        const std::string message = failure.what();
        EXPECT_NE(message.find("are allowed, by the other ports and the "
                               "attributes"),
                std::string::npos)
                << message;
    }
}

TEST(cache_key, attributes_of_one_meaning_are_one) {
    const auto program_of = [](const op &the_op) {
        const auto made = compile(the_op, shared_engine(engine::kind::cpu));
        return detail::access::impl(made)->program;
    };
    EXPECT_EQ(program_of(interpolation("linear")),
            program_of(interpolation("bilinear")));
    EXPECT_NE(program_of(interpolation("linear")),
            program_of(interpolation("nearest")));
}

} // namespace
} // namespace gradnn::test
