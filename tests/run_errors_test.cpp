// What graphs, compile and execute refuse: status and message. Nothing is
// written when execute refuses.
#include <limits>

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

using lt = logical_tensor;

lt f32(size_t id, const sizes &dims) {
    return {id, data_type::f32, dims, layout_type::strided};
}

op add_op(size_t id, size_t a, size_t b, size_t out, const sizes &dims = {4}) {
    return {id, op::kind::Add, {f32(a, dims), f32(b, dims)}, {f32(out, dims)},
            "sum" + std::to_string(id)};
}

engine cpu() {
    return shared_engine(engine::kind::cpu);
}

void finalize(const std::vector<op> &ops) {
    graph g(engine::kind::cpu);
    for (const op &the_op : ops)
        g.add_op(the_op);
    g.finalize();
}

std::vector<error_row> graph_rows() {
    using s = status;
    return {
            {"ids_twice",
                    [] {
                        finalize({add_op(1, 0, 1, 2), add_op(1, 2, 1, 3)});
                    },
                    s::invalid_graph, {"id 1", "sum1"}},
            {"two_producers",
                    [] {
                        finalize({add_op(1, 0, 1, 2), add_op(2, 0, 1, 2)});
                    },
                    s::invalid_graph, {"tensor 2", "sum1", "sum2"}},
            {"cycle",
                    [] {
                        finalize({add_op(1, 0, 3, 2), add_op(2, 0, 2, 3)});
                    },
                    s::invalid_graph, {"cycle"}},
            {"own_input", [] { finalize({add_op(1, 0, 2, 2)}); },
                    s::invalid_graph, {"sum1"}},
            {"two_shapes",
                    [] {
                        finalize({add_op(1, 0, 1, 2, {4}),
                                add_op(2, 2, 5, 3, {5})});
                    },
                    s::invalid_graph, {"tensor 2", "[4]", "[5]"}},
            {"two_types",
                    [] {
                        const lt half(2, data_type::f16, sizes {4},
                                layout_type::strided);
                        const lt other(5, data_type::f16, sizes {4},
                                layout_type::strided);
                        const lt out(6, data_type::f16, sizes {4},
                                layout_type::strided);
                        finalize({add_op(1, 0, 1, 2),
                                op(2, op::kind::Add, {half, other}, {out})});
                    },
                    s::invalid_graph, {"tensor 2", "f16", "f32"}},
            {"add_after_finalize",
                    [] {
                        graph g(engine::kind::cpu);
                        g.finalize();
                        g.add_op(add_op(1, 0, 1, 2));
                    },
                    s::invalid_graph, {"finalized"}},
            {"partitions_before_finalize",
                    [] { graph(engine::kind::cpu).get_partitions(); },
                    s::invalid_graph, {"finalize"}},
            {"engine_kind_any", [] { graph g(engine::kind::any); },
                    s::invalid_arguments, {"any", "cpu and gpu"}},
            {"cpu_index", [] { engine(engine::kind::cpu, 1); },
                    s::invalid_arguments, {"cpu", "1", "0 is allowed"}},
            {"engine_any", [] { engine(engine::kind::any, 0); },
                    s::invalid_arguments, {"any", "cpu and gpu"}},
            {"empty_engine", [] { stream {engine()}; }, s::invalid_arguments,
                    {"stream", "engine"}},
            {"empty_partition", [] { partition().get_ops(); },
                    s::invalid_arguments, {"partition", "empty"}},
            {"empty_compiled_partition",
                    [] { compiled_partition().get_workspace_size(); },
                    s::invalid_arguments, {"compiled_partition", "empty"}},
            {"strides_of_wrong_length",
                    [] {
                        lt(7, data_type::f32, sizes {2, 3}, sizes {1});
                    },
                    s::invalid_arguments,
                    {"logical_tensor 7", "[2, 3]", "[1]"}},
            {"too_many_dims",
                    [] {
                        lt(7, data_type::f32, sizes(13, 1),
                                layout_type::strided);
                    },
                    s::invalid_arguments, {"logical_tensor 7", "13", "12"}},
            {"ndims_out_of_range",
                    [] { lt(7, data_type::f32, -2, layout_type::strided); },
                    s::invalid_arguments, {"logical_tensor 7", "-2"}},
            {"tensor_without_engine",
                    [] { tensor(f32(7, {1}), engine(), nullptr); },
                    s::invalid_arguments, {"tensor 7", "engine"}},
    };
}

compiled_partition compile_add(
        const std::vector<lt> &inputs, const std::vector<lt> &outputs) {
    return partition_of(add_op(1, 0, 1, 2), engine::kind::cpu)
            .compile(inputs, outputs, cpu());
}

std::vector<error_row> compile_rows() {
    using s = status;
    return {
            {"port_missing", [] { compile_add({f32(0, {4})}, {f32(2, {4})}); },
                    s::invalid_arguments, {"sum1", "tensor 1"}},
            {"port_unknown",
                    [] {
                        compile_add({f32(0, {4}), f32(1, {4}), f32(9, {4})},
                                {f32(2, {4})});
                    },
                    s::invalid_arguments, {"tensor 9", "no port"}},
            {"other_dims",
                    [] {
                        compile_add({f32(0, {5}), f32(1, {5})}, {f32(2, {5})});
                    },
                    s::invalid_shape, {"tensor 0", "[5]", "[4]"}},
            {"other_type",
                    [] {
                        compile_add({lt(0, data_type::f16, sizes {4},
                                             layout_type::strided),
                                            f32(1, {4})},
                                {f32(2, {4})});
                    },
                    s::invalid_data_type, {"tensor 0", "f16", "f32"}},
            {"input_layout_unknown",
                    [] {
                        compile_add({lt(0, data_type::f32, sizes {4},
                                             layout_type::any),
                                            f32(1, {4})},
                                {f32(2, {4})});
                    },
                    s::invalid_shape, {"input 0", "strided"}},
            {"input_dims_unknown",
                    [] {
                        const op open(1, op::kind::Add,
                                {lt(0, data_type::f32), lt(1, data_type::f32)},
                                {lt(2, data_type::f32)}, "open");
                        compile(open, cpu());
                    },
                    s::invalid_shape, {"open", "input 0", "known"}},
            {"output_overlaps_itself",
                    [] {
                        compile_add({f32(0, {4}), f32(1, {4})},
                                {lt(2, data_type::f32, sizes {4}, sizes {0})});
                    },
                    s::invalid_shape, {"output 0", "overlap"}},
            {"weights_shape_unknown",
                    [] {
                        op the_op(1, op::kind::ConvolutionBackwardWeights,
                                {f32(0, {1, 4, 9}), f32(1, {1, 6, 7})},
                                {lt(2, data_type::f32)}, "dw");
                        for (const auto name :
                                {op::attr::strides, op::attr::dilations})
                            the_op.set_attr(name, sizes {1});
                        for (const auto name :
                                {op::attr::pads_begin, op::attr::pads_end})
                            the_op.set_attr(name, sizes {0});
                        the_op.set_attr<std::string>(
                                op::attr::data_format, "NCX");
                        compile(the_op, cpu());
                    },
                    s::invalid_shape, {"dw", "weights_shape"}},
            {"engine_empty",
                    [] {
                        partition_of(add_op(1, 0, 1, 2), engine::kind::cpu)
                                .compile({f32(0, {4}), f32(1, {4})},
                                        {f32(2, {4})}, engine());
                    },
                    s::invalid_arguments, {"engine"}},
            {"forced_kernel_unknown",
                    [] {
                        const forced_kernel forced("elementwise.magic");
                        compile_add({f32(0, {4}), f32(1, {4})}, {f32(2, {4})});
                    },
                    s::invalid_arguments,
                    {"GRADNN_KERNEL", "elementwise.magic", "elementwise.simd"}},
            {"no_port_to_query",
                    [] {
                        compile_add({f32(0, {4}), f32(1, {4})}, {f32(2, {4})})
                                .query_logical_tensor(77);
                    },
                    s::invalid_arguments, {"77"}},
    };
}

class run_errors : public testing::TestWithParam<error_row> {};

TEST_P(run_errors, are_named) {
    expect_error(GetParam());
}

INSTANTIATE_TEST_SUITE_P(graph, run_errors, testing::ValuesIn(graph_rows()),
        [](const auto &each) { return each.param.name; });
INSTANTIATE_TEST_SUITE_P(compile, run_errors, testing::ValuesIn(compile_rows()),
        [](const auto &each) { return each.param.name; });

/// A sum of two tensors that execute is given in a wrong way.
class execute_errors : public testing::TestWithParam<engine::kind> {
protected:
    execute_errors()
        : the_engine(shared_engine(GetParam())),
          the_op(add_op(1, 0, 1, 2, {2, 4})),
          run(the_op, the_engine, random_inputs(the_op, 91)),
          in(run.input_tensors()),
          out(run.output_tensors()),
          s(the_engine) {}

    void expect(status expected, const std::vector<std::string> &words) {
        expect_error({"execute", [&] { run.compiled().execute(s, in, out); },
                expected, words});
        // Not a byte.
        run.execute();
        run.expect_right();
        run.output_tensor(0).poison();
        EXPECT_THROW(run.compiled().execute(s, in, out), error);
        const auto bytes = run.output_bytes(0);
        EXPECT_EQ(
                bytes, std::vector<std::byte>(bytes.size(), std::byte {0xff}));
    }

    tensor with_data(const tensor &t, void *data) const {
        return {t.get_logical_tensor(), the_engine, data};
    }

    engine the_engine;
    op the_op;
    op_run run;
    std::vector<tensor> in;
    std::vector<tensor> out;
    stream s;
};

TEST_P(execute_errors, input_missing) {
    in.pop_back();
    expect(status::invalid_arguments, {"sum1", "input 1", "tensor 1"});
}

TEST_P(execute_errors, output_missing) {
    out.clear();
    expect(status::invalid_arguments, {"output 0", "tensor 2"});
}

TEST_P(execute_errors, input_null) {
    in[0].set_data_handle(nullptr);
    expect(status::invalid_arguments, {"input 0", "tensor 0", "null"});
}

TEST_P(execute_errors, output_null) {
    out[0].set_data_handle(nullptr);
    expect_error({"null", [&] { run.compiled().execute(s, in, out); },
            status::invalid_arguments, {"output 0", "tensor 2", "null"}});
}

TEST_P(execute_errors, other_dims) {
    in[1] = tensor(f32(1, {4, 2}), the_engine, in[1].get_data_handle());
    expect(status::invalid_arguments,
            {"input 1", "[4, 2]", "compiled for", "[2, 4]"});
}

TEST_P(execute_errors, other_strides) {
    in[1] = tensor(lt(1, data_type::f32, sizes {2, 4}, sizes {1, 2}),
            the_engine, in[1].get_data_handle());
    expect(status::invalid_arguments, {"input 1", "[1, 2]", "[4, 1]"});
}

TEST_P(execute_errors, other_type) {
    in[0] = tensor(lt(0, data_type::f64, sizes {2, 4}, layout_type::strided),
            the_engine, in[0].get_data_handle());
    expect(status::invalid_arguments, {"input 0", "f64", "f32"});
}

TEST_P(execute_errors, layout_left_open) {
    in[0] = tensor(lt(0, data_type::f32, sizes {2, 4}, layout_type::any),
            the_engine, in[0].get_data_handle());
    expect(status::invalid_arguments, {"input 0", "stride"});
}

TEST_P(execute_errors, misaligned_elements) {
    in[0].set_data_handle(static_cast<char *>(in[0].get_data_handle()) + 1);
    expect(status::invalid_arguments, {"input 0", "aligned"});
}

// Part of an input would be overwritten while it is read.
TEST_P(execute_errors, output_overlaps_part_of_an_input) {
    out[0].set_data_handle(static_cast<float *>(in[0].get_data_handle()) + 1);
    expect_error({"overlap", [&] { run.compiled().execute(s, in, out); },
            status::invalid_arguments, {"output 0", "input 0", "overlap"}});
}

TEST_P(execute_errors, two_outputs_overlap) {
    const op conv = convolution_op(op::kind::ConvBackward,
            convolution_named("plain_2d"), layouts()[0], data_type::f32);
    op_run r(conv, the_engine, random_inputs(conv, 92));
    auto outputs = r.output_tensors();
    outputs[1].set_data_handle(outputs[0].get_data_handle());
    expect_error({"outputs",
            [&] { r.compiled().execute(s, r.input_tensors(), outputs); },
            status::invalid_arguments,
            {"output 1 (diff_weights)", "output 0 (diff_src)", "overlap"}});
}

// A convolution cannot work in place.
TEST_P(execute_errors, output_is_an_input_where_it_may_not) {
    const op up = interpolation_op(
            {"same", 1, 2, {5}, {5}}, {}, layouts()[0], data_type::f32);
    op_run r(up, the_engine, random_inputs(up, 93));
    auto outputs = r.output_tensors();
    outputs[0].set_data_handle(r.input_tensors()[1].get_data_handle());
    expect_error({"in place",
            [&] { r.compiled().execute(s, r.input_tensors(), outputs); },
            status::invalid_arguments,
            {"output 0 (diff_src)", "input 1 (diff_dst)", "overlap"}});
}

TEST_P(execute_errors, empty_stream) {
    stream none;
    expect_error({"stream", [&] { run.compiled().execute(none, in, out); },
            status::invalid_arguments, {"stream"}});
}

TEST_P(execute_errors, shape_input_of_other_values) {
    const op up = interpolation_op(interpolation_named("up_2x"),
            {"linear", "half_pixel", size_source::sizes_input}, layouts()[0],
            data_type::f32);
    values_list inputs = random_inputs(up, 94);
    inputs[2][1] += 1;
    op_run r(up, the_engine, inputs);
    expect_error({"sizes", [&] { r.execute(); }, status::invalid_shape,
            {"input 2 (sizes)", "element 1", "27", "[18, 26]"}});
    EXPECT_EQ(r.output_bytes(0),
            std::vector<std::byte>(r.output_bytes(0).size(), std::byte {0xff}));
}

INSTANTIATE_TEST_SUITE_P(engines, execute_errors,
        testing::ValuesIn(engine_kinds()),
        [](const auto &each) { return to_string(each.param); });

} // namespace
} // namespace gradnn::test
