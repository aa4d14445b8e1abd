// Partitions of several ops: where the tensors between their ops are, and what is said
// of them.
#include <gtest/gtest.h>

#include <thread>

#include "support/captured_log.hpp"
#include "support/expect_error.hpp"
#include "support/op_chains.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

constexpr auto fusion = partition::policy::fusion;
constexpr auto debug = partition::policy::debug;
using kind = op::kind;

class a_group : public testing::TestWithParam<engine::kind> {
protected:
    engine the_engine() const { return shared_engine(GetParam()); }

    /// The edge of a residual block: tensor 3 is between the convolution and the
    /// Add, 6 between that and the ReLU, 8 is the result.
    static std::vector<op> edge(const layout &l = layouts()[0]) {
        return chain_of({{kind::ConvolutionBackwardData}, {kind::Add, 1},
                                {kind::ReLUBackward}},
                l, data_type::f32);
    }
};

/// Ids of an op's output 0.
size_t result_of(const op &the_op) {
    return the_op.get_outputs()[0].get_id();
}

TEST_P(a_group, says_what_is_inside) {
    const std::vector<op> ops = edge();
    const captured_log log(1);
    const forced_kernel steps(
            "partition.ops"); // of a GPU's kernels one has all
    const graph_run run(ops, the_engine(), fusion);
    const compiled_partition &compiled = run.compiled().at(0);
    const compiled_partition_info info = compiled.get_info();
    ASSERT_EQ(info.steps.size(), 3U);
    for (size_t index = 0; index < 3; ++index)
        EXPECT_EQ(info.steps[index].op_id, index);
    ASSERT_EQ(info.inner.size(), 2U);
    std::vector<std::string> names;
    for (size_t index = 0; index < 2; ++index) {
        const logical_tensor &lt = info.inner[index];
        EXPECT_EQ(lt.get_id(), result_of(ops[index]));
        EXPECT_EQ(lt.get_layout_type(), layout_type::strided);
        EXPECT_THROW(compiled.query_logical_tensor(lt.get_id()), error);
        names.push_back((index == 0 ? "diff_src:" : "dst:")
                + std::to_string(lt.get_id()) + ":f32:2x4x8x12:abcd");
    }
    for (const char *event : {"compile", "execute"})
        EXPECT_EQ(
                log.lines(event).at(0).at("inner"), names[0] + ' ' + names[1]);
    // The Add writes where it reads: one tensor's room serves both.
    const size_t room = info.inner[0].get_mem_size();
    EXPECT_EQ(room % 64, 0U);
    size_t scratch = 0;
    for (const step_info &step : info.steps)
        scratch = std::max(scratch, step.workspace_bytes);
    EXPECT_EQ(info.workspace_bytes, room + scratch);
    EXPECT_EQ(compiled.get_workspace_size(), info.workspace_bytes);
    // Of the last op the src may be overwritten, of the Add inside nothing.
    const auto pairs = compiled.get_inplace_ports();
    ASSERT_EQ(pairs.size(), 1U);
    EXPECT_EQ(pairs[0].first, ops[2].get_inputs()[0].get_id());
    EXPECT_EQ(pairs[0].second, result_of(ops[2]));
}

TEST_P(a_group, needs_room_for_one_slice) {
    const auto ops = chain_of({{kind::Add}, {kind::InterpolateBackward}},
            layouts()[0], data_type::f32, {.space = {256, 384}});
    const captured_log log(1);
    const graph_run run(ops, the_engine(), fusion, 1);
    const auto info = run.compiled().at(0).get_info();
    const size_t whole = info.inner.at(0).get_mem_size();
    size_t scratch = 0;
    for (const step_info &step : info.steps)
        scratch = std::max(scratch, step.workspace_bytes);
    // One kernel that adds as it loads has no tensor inside.
    if (info.steps.size() == 1) {
        EXPECT_EQ(info.workspace_bytes, scratch);
        return;
    }
    EXPECT_EQ(info.workspace_bytes, whole / info.slices + scratch);
    EXPECT_EQ(log.lines("compile").at(0).at("note"),
            info.slices > 1 ? std::to_string(info.slices) + " slices" : "");
}

TEST_P(a_group, leaves_out_the_upsampling_of_a_bias_alone) {
    const convolution_case c {"conv", 1, 1, 8, 8, {18, 18}, {3, 3}, {1, 1},
            {1, 1}, {1, 1}, {1, 1}};
    const op conv = convolution_op(kind::ConvBackward, c, layouts()[0],
            data_type::f32, {.diff_src = false, .diff_weights = false});
    interpolation_choice choice {"nearest"};
    choice.forward = true;
    const op up = interpolation_op({"up", 1, 8, {9, 9}, {18, 18}}, choice,
            layouts()[0], data_type::f32);
    const logical_tensor small(
            100, data_type::f32, sizes {1, 8, 9, 9}, layout_type::strided);
    const graph_run run(
            {with_ports(up, 0, {small}, {conv.get_inputs()[1]}),
                    with_ports(conv, 1, conv.get_inputs(), conv.get_outputs())},
            the_engine(), fusion);
    const auto info = run.compiled().at(0).get_info();
    ASSERT_EQ(info.steps.size(), 1U);
    EXPECT_EQ(info.steps[0].output, "diff_bias");
    EXPECT_EQ(info.workspace_bytes, info.steps[0].workspace_bytes);
}

TEST_P(a_group, takes_the_callers_workspace) {
    const engine e = the_engine();
    const forced_kernel steps("partition.ops");
    const graph_run run(edge(), e, fusion);
    const size_t result = run.outputs().back();
    const auto expected = run.bytes(result);
    const compiled_partition &compiled = run.compiled().at(0);
    const size_t bytes = compiled.get_workspace_size();
    const device_memory workspace(e, bytes);
    stream s(e);
    std::vector<tensor> outputs = run.outputs_of(0);
    compiled.execute(s, run.inputs_of(0), outputs, workspace.data());
    s.wait();
    EXPECT_EQ(run.bytes(result), expected);
    const logical_tensor scratchpad = compiled.get_scratchpad_logical_tensor();
    const device_memory room(e, scratchpad.get_mem_size(), 1);
    compiled.execute(
            s, run.inputs_of(0), outputs, tensor(scratchpad, e, room.data()));
    s.wait();
    EXPECT_EQ(run.bytes(result), expected);
    EXPECT_THROW(compiled.execute(s, run.inputs_of(0), outputs,
                         static_cast<void *>(nullptr)),
            error);
}

TEST_P(a_group, runs_in_several_threads_at_once) {
    const engine e = the_engine();
    const std::vector<op> ops = edge();
    const graph_run run(ops, e, fusion);
    const auto expected = run.bytes(run.outputs().back());
    const logical_tensor lt = run.outputs_of(0)[0].get_logical_tensor();
    std::vector<std::unique_ptr<test_tensor>> results;
    std::vector<std::thread> threads;
    for (size_t index = 0; index < 4; ++index)
        results.push_back(std::make_unique<test_tensor>(
                lt, e, test_tensor::role::output));
    for (const auto &result : results)
        threads.emplace_back([&run, &e, &result] {
            stream s(e);
            for (int repeat = 0; repeat < 20; ++repeat)
                run.compiled()[0].execute(s, run.inputs_of(0), {result->get()});
            s.wait();
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const auto &result : results)
        EXPECT_EQ(result->element_bytes(), expected);
}

TEST_P(a_group, is_found_in_the_cache) {
    const captured_log log(1);
    // Other ids and names are the same partition, other ops are not.
    std::vector<op> ops = edge(layouts()[1]);
    (void)graph_run(ops, the_engine(), fusion);
    (void)graph_run(ops, the_engine(), fusion);
    (void)graph_run(chain_of({{kind::ConvolutionBackwardData}, {kind::Add, 0},
                                     {kind::ReLUBackward}},
                            layouts()[1], data_type::f32),
            the_engine(), fusion);
    const auto compilations = log.lines("compile");
    ASSERT_EQ(compilations.size(), 3U);
    EXPECT_EQ(compilations[1].at("event"), "compile:cache_hit");
    EXPECT_EQ(compilations[2].at("event"), "compile:cache_miss");
}

TEST_P(a_group, lays_out_what_is_left_open) {
    for (const layout &l : {layouts()[0], layouts()[1]}) {
        std::vector<op> ops = edge(l);
        const logical_tensor known = ops[0].get_outputs()[0];
        const auto described = [&](const logical_tensor &made,
                                       const logical_tensor &read) {
            std::vector<logical_tensor> inputs = ops[1].get_inputs();
            inputs[1] = read;
            return std::vector<op> {
                    with_ports(ops[0], 0, ops[0].get_inputs(), {made}),
                    with_ports(ops[1], 1, inputs, ops[1].get_outputs()),
                    ops[2]};
        };
        const size_t id = known.get_id();
        const logical_tensor unknown(id, data_type::f32, layout_type::undef);
        const logical_tensor ranked(id, data_type::f32, 4, layout_type::any);
        const logical_tensor open(
                id, data_type::f32, known.get_dims(), layout_type::any);
        for (const logical_tensor &made : {unknown, ranked, open, known})
            for (const logical_tensor &read : {unknown, ranked, open, known}) {
                const auto given = described(made, read);
                const graph_run run(given, the_engine(), fusion);
                ASSERT_EQ(run.compiled().size(), 1U);
                const auto inner = run.compiled()[0].get_info().inner;
                EXPECT_EQ(inner.at(0).get_dims(), known.get_dims());
                const graph_run wanted(ops, the_engine(), debug);
                EXPECT_EQ(run.bytes(result_of(ops[2])),
                        wanted.bytes(result_of(ops[2])));
            }
    }
}

TEST_P(a_group, may_be_empty_or_sum_up_nothing) {
    const layout &l = layouts()[0];
    // No images, and no channels that a convolution could add up.
    const convolution_case no_images {
            "", 0, 1, 3, 4, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    const convolution_case nothing {
            "", 2, 1, 3, 0, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    for (const convolution_case &c : {no_images, nothing}) {
        const op conv
                = convolution_op(kind::ConvBackward, c, l, data_type::f32);
        const logical_tensor &inner = conv.get_outputs()[0];
        const logical_tensor src(
                20, data_type::f32, inner.get_dims(), layout_type::strided);
        const logical_tensor result(
                21, data_type::f32, inner.get_dims(), layout_type::strided);
        expect_same_bits(
                {conv, op(1, kind::ReLUBackward, {src, inner}, {result})},
                the_engine());
    }
}

TEST_P(a_group, whose_tensor_is_broadcast) {
    // Add makes more of it.
    const std::vector<op> ops = chain_of(
            {{kind::InterpolateBackward}}, layouts()[0], data_type::f32);
    const logical_tensor inner = ops[0].get_outputs()[0];
    sizes dims = inner.get_dims();
    dims.insert(dims.begin(), 3);
    const logical_tensor other(20, data_type::f32, dims, layout_type::strided);
    const logical_tensor result(21, data_type::f32, dims, layout_type::strided);
    expect_same_bits(
            {ops[0], op(1, kind::Add, {other, inner}, {result})}, the_engine());
}

TEST_P(a_group, refuses) {
    const std::vector<op> ops = edge();
    const engine e = the_engine();
    const partition whole
            = graph_of(ops, GetParam()).get_partitions(fusion).at(0);
    const auto inputs = whole.get_input_ports();
    const auto outputs = whole.get_output_ports();
    const logical_tensor inner = ops[0].get_outputs()[0];
    const std::string named = "tensor " + std::to_string(inner.get_id());
    auto more = inputs;
    more.push_back(inner);
    expect_error({"an inner tensor", [&] { whole.compile(more, outputs, e); },
            status::invalid_arguments, {named, "inside the partition"}});
    auto fewer = inputs;
    fewer.pop_back();
    expect_error({"a missing input", [&] { whole.compile(fewer, outputs, e); },
            status::invalid_arguments,
            {"ReLUBackward", "(op 2)", "is not given tensor"}});
    // What the chain makes has not the dims that its end was built with.
    const logical_tensor open(inner.get_id(), data_type::f32, layout_type::any);
    auto wrong = ops;
    wrong[0] = with_ports(ops[0], 0,
            {logical_tensor(0, data_type::f32, sizes {2, 4, 7, 12},
                     layout_type::strided),
                    ops[0].get_inputs()[1]},
            {open});
    expect_error({"dims that disagree",
            [&] {
                const partition made = graph_of(wrong, GetParam())
                                               .get_partitions(fusion)
                                               .at(0);
                made.compile(
                        made.get_input_ports(), made.get_output_ports(), e);
            },
            status::invalid_shape, {"ConvolutionBackwardData", "(op 0)"}});
    wrong[0] = with_ports(ops[0], 0, ops[0].get_inputs(),
            {logical_tensor(inner.get_id(), data_type::bf16, inner.get_dims(),
                    layout_type::strided)});
    expect_error({"types that disagree", [&] { graph_of(wrong, GetParam()); },
            status::invalid_data_type, {"ConvolutionBackwardData"}});
}

INSTANTIATE_TEST_SUITE_P(engines, a_group, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
