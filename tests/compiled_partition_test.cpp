// Compiled partitions: queries, ports, workspace, the caller's allocator.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

using lt = logical_tensor;

class compiled : public testing::TestWithParam<engine::kind> {
protected:
    engine the_engine() const { return shared_engine(GetParam()); }
};

// Relaxed arithmetic may be less exact, not wrong.
TEST_P(compiled, every_fpmath_mode_and_no_determinism) {
    for (const fpmath_mode mode : {fpmath_mode::strict, fpmath_mode::bf16,
                 fpmath_mode::f16, fpmath_mode::any, fpmath_mode::tf32})
        for (const auto &[type, deterministic] :
                {std::pair {data_type::f32, true}, {data_type::f32, false},
                        {data_type::bf16, true}}) {
            // Gradients of weights in f32.
            const op the_op = convolution_op(op::kind::ConvBackward,
                    convolution_named("sixteen_channels"), layouts()[0], type,
                    {true, true, true, true});
            const auto c = partition_of(the_op, GetParam(), mode, deterministic)
                                   .compile(the_op.get_inputs(),
                                           the_op.get_outputs(), the_engine());
            op_run r(the_op, c, the_engine(), random_inputs(the_op, 61), {});
            r.execute();
            SCOPED_TRACE(static_cast<int>(mode));
            r.expect_right(r.expected(mode));
        }
}

// Outputs of unknown dims are inferred; `any` becomes a strided layout that
// nests as the data's does.
TEST_P(compiled, queries_what_was_inferred) {
    for (const layout &l : {layouts()[0], layouts()[1], layouts()[4]}) {
        SCOPED_TRACE(l.name);
        const op full = interpolation_op(
                interpolation_named("up_2x"), {}, l, data_type::f32);
        op open(0, op::kind::InterpolateBackward, full.get_inputs(),
                {lt(3, data_type::f32, layout_type::any)});
        for (const auto &[name, value] : full.get_attrs())
            std::visit(
                    [&, key = name](const auto &v) { open.set_attr(key, v); },
                    value);
        const auto c = compile(open, the_engine());
        const lt out = c.query_logical_tensor(3);
        EXPECT_EQ(out.get_layout_type(), layout_type::strided);
        EXPECT_EQ(out.get_dims(), full.get_inputs()[0].get_dims());
        EXPECT_EQ(out.get_strides(), full.get_inputs()[0].get_strides());
        EXPECT_EQ(c.query_logical_tensor(1).get_dims(),
                full.get_inputs()[1].get_dims());
        op_run r(open, c, the_engine(), random_inputs(full, 62), {});
        r.execute();
        r.expect_right();
    }
    // diff_src and dst sizes from the attributes alone.
    const op conv = convolution_op(op::kind::ConvolutionBackwardData,
            convolution_named("strided_2d"), layouts()[1], data_type::f32);
    op open(0, conv.get_kind(), conv.get_inputs(),
            {lt(3, data_type::f32, layout_type::any)});
    for (const auto &[name, value] : conv.get_attrs())
        std::visit([&, key = name](const auto &v) { open.set_attr(key, v); },
                value);
    EXPECT_EQ(compile(open, the_engine()).query_logical_tensor(3).get_dims(),
            conv.get_outputs()[0].get_dims());
}

// Shapes may come at compile; ports of the graph know no dims.
TEST_P(compiled, shapes_known_at_compile_only) {
    const op full = interpolation_op(
            interpolation_named("ragged_2d"), {}, layouts()[0], data_type::f32);
    op open(0, op::kind::InterpolateBackward,
            {lt(0, data_type::f32),
                    lt(1, data_type::f32, 4, layout_type::undef)},
            {lt(3, data_type::f32)});
    for (const auto &[name, value] : full.get_attrs())
        std::visit([&, key = name](const auto &v) { open.set_attr(key, v); },
                value);
    const partition p = partition_of(open, GetParam());
    const auto c
            = p.compile(full.get_inputs(), full.get_outputs(), the_engine());
    op_run r(full, c, the_engine(), random_inputs(full, 63), {});
    r.execute();
    r.expect_right();
}

// Elementwise gradients may overwrite their inputs.
TEST_P(compiled, inplace_ports) {
    const op the_op = samples::relu(0, 0, 1, 2);
    const auto c = compile(the_op, the_engine());
    std::set<size_t> inputs;
    for (const auto &[in, out] : c.get_inplace_ports()) {
        EXPECT_EQ(out, 2U);
        inputs.insert(in);
    }
    EXPECT_EQ(inputs, (std::set<size_t> {0, 1}));
    for (const size_t shared : {0U, 1U}) {
        op_run r(the_op, c, the_engine(), random_inputs(the_op, 64), {});
        const auto expected = r.reference()[0].values;
        const tensor out(the_op.get_outputs()[0], the_engine(),
                r.input_tensor(shared).data());
        stream s(the_engine());
        c.execute(s, r.input_tensors(), {out});
        s.wait();
        EXPECT_EQ(r.input_tensor(shared).load(), expected);
    }
    EXPECT_TRUE(compile(interpolation_op(interpolation_named("up_2x"), {},
                                layouts()[0], data_type::f32),
            the_engine())
                        .get_inplace_ports()
                        .empty());
}

// Tensors are matched by id, in any order; compile's lists likewise.
TEST_P(compiled, order_of_tensors_is_free) {
    const op the_op = convolution_op(op::kind::ConvBackward,
            convolution_named("plain_2d"), layouts()[0], data_type::f32);
    auto inputs = the_op.get_inputs();
    auto outputs = the_op.get_outputs();
    std::reverse(inputs.begin(), inputs.end());
    std::reverse(outputs.begin(), outputs.end());
    const auto c = partition_of(the_op, GetParam())
                           .compile(inputs, outputs, the_engine());
    op_run r(the_op, c, the_engine(), random_inputs(the_op, 65), {});
    auto in = r.input_tensors();
    auto out = r.output_tensors();
    std::rotate(in.begin(), in.begin() + 1, in.end());
    std::reverse(out.begin(), out.end());
    stream s(the_engine());
    c.execute(s, in, out);
    s.wait();
    r.expect_right();
}

TEST_P(compiled, info_names_what_runs) {
    const auto c = compile(convolution_op(op::kind::ConvBackward,
                                   convolution_named("plain_2d"), layouts()[0],
                                   data_type::f32),
            the_engine());
    const auto info = c.get_info();
    ASSERT_EQ(info.steps.size(), 3U);
    EXPECT_EQ(info.workspace_bytes, c.get_workspace_size());
    for (const step_info &step : info.steps) {
        EXPECT_FALSE(step.kernel.empty());
        EXPECT_FALSE(step.backend.empty());
        EXPECT_LE(step.workspace_bytes, info.workspace_bytes);
    }
    EXPECT_EQ(info.steps[0].kernel.rfind("convolution.", 0), 0U);
    EXPECT_EQ(info.steps[2].kernel.rfind("bias.", 0), 0U);
}

/// An op for which some kernel needs workspace; empty where none does.
std::optional<std::pair<op, std::string>> op_with_workspace(const engine &e) {
    for (const std::string &kernel : kernel_names(e.get_kind(), "convolution"))
        for (const data_type type : float_types()) {
            const op the_op = convolution_op(op::kind::ConvBackward,
                    convolution_named("sixteen_channels"), layouts()[0], type);
            const forced_kernel forced(kernel);
            try {
                if (compile(the_op, e).get_workspace_size() > 0)
                    return std::pair(the_op, kernel);
            } catch (const error &) {
                continue;
            }
        }
    return std::nullopt;
}

TEST_P(compiled, callers_workspace) {
    const auto found = op_with_workspace(the_engine());
    ASSERT_TRUE(found) << "no kernel needs workspace: nothing is tested";
    const auto &[the_op, kernel] = *found;
    const forced_kernel forced(kernel);
    op_run r(the_op, the_engine(), random_inputs(the_op, 66));
    r.execute();
    const auto expected = r.all_output_bytes();
    const size_t bytes = r.compiled().get_workspace_size();
    constexpr size_t guard = 256;
    device_memory memory(the_engine(), bytes + 2 * guard);
    const std::vector<std::byte> pattern(memory.size(), std::byte {0xff});
    memory.write(pattern.data());
    auto *const workspace = static_cast<std::byte *>(memory.data()) + guard;
    stream s(the_engine());
    for (size_t index = 0; index < 3; ++index)
        r.output_tensor(index).poison();
    r.compiled().execute(s, r.input_tensors(), r.output_tensors(), workspace);
    s.wait();
    EXPECT_EQ(r.all_output_bytes(), expected);
    // As many bytes as it said, and no more.
    std::vector<std::byte> after(memory.size());
    memory.read(after.data());
    for (size_t i = 0; i < guard; ++i) {
        ASSERT_EQ(after[i], std::byte {0xff});
        ASSERT_EQ(after[guard + bytes + i], std::byte {0xff});
    }
    EXPECT_THROW(r.compiled().execute(
                         s, r.input_tensors(), r.output_tensors(), nullptr),
            error);
    EXPECT_THROW(r.compiled().execute(s, r.input_tensors(), r.output_tensors(),
                         workspace + 4),
            error);
}

TEST_P(compiled, callers_scratchpad) {
    const auto found = op_with_workspace(the_engine());
    ASSERT_TRUE(found) << "no kernel needs workspace: nothing is tested";
    const auto &[the_op, kernel] = *found;
    const forced_kernel forced(kernel);
    op_run r(the_op, the_engine(), random_inputs(the_op, 67));
    r.execute();
    const auto expected = r.all_output_bytes();
    const compiled_partition &c = r.compiled();
    const logical_tensor lt = c.get_scratchpad_logical_tensor();
    EXPECT_EQ(lt.get_data_type(), data_type::u8);
    EXPECT_EQ(lt.get_layout_type(), logical_tensor::layout_type::strided);
    ASSERT_EQ(lt.get_dims().size(), 1U);
    ASSERT_GE(lt.get_mem_size(), c.get_workspace_size());
    // At any address.
    device_memory memory(the_engine(), lt.get_mem_size() + 1);
    auto *const data = static_cast<std::byte *>(memory.data()) + 1;
    stream s(the_engine());
    for (const tensor &scratchpad :
            {tensor(lt, the_engine(), data), tensor()}) {
        for (size_t index = 0; index < 3; ++index)
            r.output_tensor(index).poison();
        c.execute(s, r.input_tensors(), r.output_tensors(), scratchpad);
        s.wait();
        EXPECT_EQ(r.all_output_bytes(), expected);
    }
    const logical_tensor smaller(lt.get_id(), data_type::u8,
            logical_tensor::dims {
                    static_cast<int64_t>(c.get_workspace_size()) - 1},
            logical_tensor::layout_type::strided);
    for (const tensor &wrong : {tensor(smaller, the_engine(), data),
                 tensor(lt, the_engine(), nullptr)})
        EXPECT_THROW(c.execute(s, r.input_tensors(), r.output_tensors(), wrong),
                error);
}

INSTANTIATE_TEST_SUITE_P(engines, compiled, testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

// A caller's allocator, counted.
std::atomic<int> live {0};
std::atomic<int> calls {0};
std::atomic<bool> refuses {false};

void *counting_allocate(size_t size, size_t alignment) {
    if (refuses) return nullptr;
    ++live;
    ++calls;
    return std::aligned_alloc(
            alignment, (size + alignment - 1) / alignment * alignment);
}

void counting_deallocate(void *pointer) {
    --live;
    std::free(pointer);
}

TEST(allocator_api, workspace_comes_from_the_callers_functions) {
    const allocator alloc(counting_allocate, counting_deallocate);
    const engine e = make_engine_with_allocator(engine::kind::cpu, 0, alloc);
    const auto found = op_with_workspace(e);
    ASSERT_TRUE(found);
    const auto &[the_op, kernel] = *found;
    const forced_kernel forced(kernel);
    calls = 0;
    {
        op_run r(the_op, e, random_inputs(the_op, 67));
        EXPECT_EQ(calls, 0) << "compile needs none";
        stream s(e);
        r.execute(s);
        r.expect_right();
        EXPECT_EQ(calls, 1);
        for (int i = 0; i < 5; ++i)
            r.execute(s);
        EXPECT_EQ(calls, 1) << "after the first execute on a stream none";
        EXPECT_EQ(live, 1);
    }
    EXPECT_EQ(live, 0) << "freed with the stream";

    // Out of memory is an error, and the library works on.
    op_run r(the_op, e, random_inputs(the_op, 68));
    stream s(e);
    refuses = true;
    try {
        r.execute(s);
        FAIL();
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::out_of_memory);
        EXPECT_NE(std::string(failure.what())
                          .find(std::to_string(
                                  r.compiled().get_workspace_size())),
                std::string::npos)
                << failure.what();
    }
    refuses = false;
    r.execute(s);
    r.expect_right();
}

TEST(allocator_api, both_functions_or_none) {
    EXPECT_THROW(allocator(counting_allocate, nullptr), error);
    EXPECT_THROW(allocator(nullptr, counting_deallocate), error);
    EXPECT_EQ(allocator().get_host_allocate(), nullptr);
}

} // namespace
} // namespace gradnn::test
