// A program as one writes it against oneDNN Graph's C++ API, with nothing
// changed but the lines below. python/tests/test_onednn_names.py compiles it
// with oneDNN's own headers, too.
#ifdef WITH_ONEDNN_GRAPH
#include <oneapi/dnnl/dnnl_graph.hpp>
namespace dnnl_graph = dnnl::graph;
using dnnl::error;
#else
#include <gradnn/gradnn.hpp>
namespace dnnl_graph = gradnn;
using gradnn::error;
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace dnnl_graph;
using data_type = logical_tensor::data_type;
using layout_type = logical_tensor::layout_type;
using property_type = logical_tensor::property_type;
using dim = logical_tensor::dim;
using dims = logical_tensor::dims;

void *host_allocate(size_t size, size_t alignment) {
    return std::aligned_alloc(
            alignment, (size + alignment - 1) / alignment * alignment);
}

void host_deallocate(void *pointer) {
    std::free(pointer);
}

/// Memory of tensors by id, as samples of oneDNN Graph keep it.
class tensor_memory {
public:
    void *get(size_t id, size_t bytes) {
        auto &buffer = buffers_[id];
        if (buffer.size() < bytes) buffer.resize(bytes);
        return buffer.data();
    }
    float *floats(size_t id) {
        return reinterpret_cast<float *>(buffers_.at(id).data());
    }

private:
    std::unordered_map<size_t, std::vector<char>> buffers_;
};

TEST(onednn_graph_program, backward_of_a_layer) {
    // Engine, allocator and stream.
    allocator alloc(host_allocate, host_deallocate);
    engine eng = make_engine_with_allocator(engine::kind::cpu, 0, alloc);
    stream strm(eng);

    // diff_dst of an upsample -> its gradient -> ReLU's -> convolution's.
    const dims big {1, 2, 6, 6};
    const dims small {1, 2, 3, 3};
    const dims src_dims {1, 3, 3, 3};
    const dims weights_dims {2, 3, 1, 1};

    logical_tensor up_src {0, data_type::f32, small, layout_type::strided};
    logical_tensor up_diff_dst {1, data_type::f32, big, layout_type::strided};
    logical_tensor up_diff_src {2, data_type::f32, small, layout_type::any};
    op upsample(0, op::kind::InterpolateBackward, {up_src, up_diff_dst},
            {up_diff_src}, "upsample_backward");
    upsample.set_attr<std::string>(op::attr::mode, "nearest");
    upsample.set_attr<std::string>(
            op::attr::coordinate_transformation_mode, "half_pixel");
    upsample.set_attr<std::vector<int64_t>>(op::attr::sizes, {6, 6});
    upsample.set_attr<std::string>(op::attr::data_format, "NCX");

    logical_tensor relu_dst {3, data_type::f32, small, layout_type::strided};
    logical_tensor relu_diff_src {4, data_type::f32, 4, layout_type::any};
    op relu(1, op::kind::ReLUBackward, "relu_backward");
    relu.add_inputs({relu_dst, up_diff_src});
    relu.add_output(relu_diff_src);
    relu.set_attr<bool>(op::attr::use_dst, true);

    logical_tensor weights {5, data_type::f32, weights_dims,
            layout_type::strided, property_type::constant};
    logical_tensor conv_diff_src {6, data_type::f32, layout_type::any};
    op conv_data(2, op::kind::ConvolutionBackwardData, "conv_backward_data");
    conv_data.add_input(relu_diff_src);
    conv_data.add_input(weights);
    conv_data.add_outputs({conv_diff_src});

    logical_tensor conv_src {7, data_type::f32, src_dims, layout_type::strided};
    logical_tensor conv_diff_weights {
            8, data_type::f32, weights_dims, layout_type::strided};
    op conv_weights(3, op::kind::ConvolutionBackwardWeights,
            {conv_src, relu_diff_src}, {conv_diff_weights});
    for (op *conv : {&conv_data, &conv_weights})
        conv->set_attr<std::vector<int64_t>>(op::attr::strides, {1, 1})
                .set_attr<std::vector<int64_t>>(op::attr::pads_begin, {0, 0})
                .set_attr<std::vector<int64_t>>(op::attr::pads_end, {0, 0})
                .set_attr<std::vector<int64_t>>(op::attr::dilations, {1, 1})
                .set_attr<int64_t>(op::attr::groups, 1)
                .set_attr<std::string>(op::attr::auto_pad, "None")
                .set_attr<std::string>(op::attr::data_format, "NCX")
                .set_attr<std::string>(op::attr::weights_format, "OIX");

    logical_tensor diff_bias {9, data_type::f32, 1, layout_type::strided};
    op bias(4, op::kind::BiasAddBackward, {relu_diff_src}, {diff_bias},
            "bias_backward");
    bias.set_attr<std::string>(op::attr::data_format, "NCX");

    // Graph and partitions.
    graph g(engine::kind::cpu, fpmath_mode::strict);
    EXPECT_EQ(g.add_op(upsample), status::success);
    g.add_op(relu);
    g.add_op(conv_data);
    g.add_op(conv_weights);
    g.add_op(bias, true);
    g.finalize();
    ASSERT_TRUE(g.is_finalized());
    std::vector<partition> partitions
            = g.get_partitions(partition::policy::fusion);
    ASSERT_FALSE(partitions.empty());

    // Compile and execute, passing on what a producer's layout turned out to
    // be.
    tensor_memory memory;
    std::unordered_map<size_t, logical_tensor> known;
    const auto fill = [&](const logical_tensor &lt, float value) {
        auto *to = static_cast<float *>(
                memory.get(lt.get_id(), lt.get_mem_size()));
        std::fill_n(to, lt.get_mem_size() / sizeof(float), value);
    };
    fill(up_src, -7.0F);
    fill(up_diff_dst, 0.25F);
    fill(relu_dst, 1.0F);
    memory.floats(3)[4] = 0.0F; // the centre of channel 0 was cut off
    fill(weights, 2.0F);
    fill(conv_src, 3.0F);

    for (const auto &p : partitions) {
        ASSERT_TRUE(p.is_supported());
        std::vector<logical_tensor> inputs = p.get_input_ports();
        std::vector<logical_tensor> outputs = p.get_output_ports();
        for (auto &input : inputs)
            if (known.count(input.get_id()) != 0)
                input = known.at(input.get_id());
        for (auto &output : outputs)
            output = logical_tensor {
                    output.get_id(), output.get_data_type(), layout_type::any};
        compiled_partition cp = p.compile(inputs, outputs, eng);
        std::vector<tensor> ins;
        std::vector<tensor> outs;
        for (const auto &input : inputs) {
            const logical_tensor lt = cp.query_logical_tensor(input.get_id());
            ins.emplace_back(
                    lt, eng, memory.get(lt.get_id(), lt.get_mem_size()));
        }
        for (const auto &output : outputs) {
            const logical_tensor lt = cp.query_logical_tensor(output.get_id());
            known.emplace(lt.get_id(), lt);
            outs.emplace_back(
                    lt, eng, memory.get(lt.get_id(), lt.get_mem_size()));
        }
        for (const std::pair<size_t, size_t> &ports : cp.get_inplace_ports())
            EXPECT_NE(ports.first, ports.second);
        cp.execute(strm, ins, outs);
    }
    strm.wait();

    // Each source element feeds four outputs of 0.25. Tensor 2 is inside the
    // partition of the upsampling and the ReLU.
    for (int i = 0; i < 18; ++i)
        EXPECT_EQ(memory.floats(4)[i], i == 4 ? 0.0F : 1.0F);
    for (int i = 0; i < 27; ++i)
        EXPECT_EQ(memory.floats(6)[i], i % 9 == 4 ? 2.0F : 4.0F);
    for (int i = 0; i < 6; ++i)
        EXPECT_EQ(memory.floats(8)[i], i < 3 ? 24.0F : 27.0F);
    EXPECT_EQ(memory.floats(9)[0], 8.0F);
    EXPECT_EQ(memory.floats(9)[1], 9.0F);
}

TEST(onednn_graph_program, single_op_partition) {
    engine eng(engine::kind::cpu, 0);
    stream strm {eng, stream::flags::default_flags};
    const dims shape {4, 5};
    logical_tensor a {0, data_type::f32, shape, layout_type::strided};
    logical_tensor b {1, data_type::f32, shape, dims {5, 1}};
    logical_tensor c {2, data_type::f32, shape, layout_type::strided};
    op add(0, op::kind::Add, {a, b}, {c}, "add");
    partition part(add, engine::kind::cpu);
    EXPECT_EQ(part.get_ops_num(), 1U);
    EXPECT_EQ(part.get_ops(), std::vector<size_t> {0});
    EXPECT_EQ(part.get_engine_kind(), engine::kind::cpu);
    (void)part.get_id();
    compiled_partition cp = part.compile({a, b}, {c}, eng);
    std::vector<float> x(20, 1.5F);
    std::vector<float> y(20, 2.0F);
    std::vector<float> z(20);
    tensor ta(a, eng, x.data());
    tensor tb(b, eng, nullptr);
    tb.set_data_handle(y.data());
    EXPECT_EQ(tb.get_data_handle(), y.data());
    EXPECT_EQ(tb.get_engine().get_kind(), engine::kind::cpu);
    cp.execute(strm, {ta, tb}, {tensor(c, eng, z.data())});
    strm.wait();
    EXPECT_EQ(z, std::vector<float>(20, 3.5F));
}

TEST(onednn_graph_program, scratchpad_of_a_partition) {
    engine eng(engine::kind::cpu, 0);
    stream strm(eng);
    const dims shape {4, 5};
    logical_tensor a {0, data_type::f32, shape, layout_type::strided};
    logical_tensor b {1, data_type::f32, shape, layout_type::strided};
    op copy(0, op::kind::Add, {a, a}, {b}, "twice");
    compiled_partition cp
            = partition(copy, engine::kind::cpu).compile({a}, {b}, eng);
    const logical_tensor lt = cp.get_scratchpad_logical_tensor();
    EXPECT_EQ(lt.get_data_type(), data_type::u8);
    EXPECT_EQ(lt.get_dims(), dims {0}); // an addition needs none
    std::vector<float> x(20, 1.5F);
    std::vector<float> y(20);
    cp.execute(strm, {tensor(a, eng, x.data())}, {tensor(b, eng, y.data())},
            tensor(lt, eng));
    EXPECT_EQ(y, std::vector<float>(20, 3.0F));
}

TEST(onednn_graph_program, scalar_in_host_memory) {
    logical_tensor lt {0, data_type::f32, dims {}, layout_type::strided,
            property_type::host_scalar};
    float value = 0.25F;
    const tensor made = tensor::make_scalar_tensor(lt, &value);
    value = 1.0F;
    EXPECT_EQ(*static_cast<float *>(made.get_data_handle()), 0.25F);
    EXPECT_TRUE(made.get_logical_tensor().is_equal(lt));
    // As oneDNN's examples write it: of no dims.
    logical_tensor of_no_dims {0, data_type::f32, 0, layout_type::strided,
            property_type::host_scalar};
    const tensor same = tensor::make_scalar_tensor(of_no_dims, &value);
    EXPECT_EQ(*static_cast<float *>(same.get_data_handle()), 1.0F);
    logical_tensor one {0, data_type::f32, dims {1}, layout_type::strided,
            property_type::host_scalar};
    logical_tensor plain {0, data_type::f32, dims {}, layout_type::strided};
    EXPECT_THROW(tensor::make_scalar_tensor(one, &value), error);
    EXPECT_THROW(tensor::make_scalar_tensor(plain, &value), error);
    EXPECT_THROW(tensor::make_scalar_tensor(lt, nullptr), error);
    // Beside ops that take one a graph still has its own.
    logical_tensor a {1, data_type::f32, dims {4}, layout_type::strided};
    logical_tensor seed {2, data_type::s64, dims {}, layout_type::strided,
            property_type::host_scalar};
    logical_tensor b {3, data_type::f32, dims {4}, layout_type::strided};
    logical_tensor c {4, data_type::f32, dims {4}, layout_type::strided};
    op dropout(0, op::kind::Dropout, {a, seed, seed, lt}, {b}, "dropout");
    op add(1, op::kind::Add, {b, a}, {c}, "add");
    graph g(engine::kind::cpu);
    g.add_op(dropout);
    g.add_op(add);
    g.finalize();
    const auto partitions = g.get_partitions();
    ASSERT_EQ(partitions.size(), 2U);
    EXPECT_FALSE(partitions[0].is_supported());
    EXPECT_TRUE(partitions[1].is_supported());
}

TEST(onednn_graph_program, dump_mode) {
    EXPECT_EQ(set_dump_mode(graph_dump_mode::graph | graph_dump_mode::subgraph),
            status::success);
    EXPECT_EQ(set_dump_mode(graph_dump_mode::none), status::success);
    EXPECT_EQ(set_dump_mode(static_cast<graph_dump_mode>(4)),
            status::invalid_arguments);
}

TEST(onednn_graph_program, errors) {
    try {
        graph g(engine::kind::cpu);
        g.get_partitions();
        FAIL() << "the graph is not finalized";
    } catch (const error &e) {
        // dnnl::error has a status and a message.
        EXPECT_EQ(static_cast<status>(e.status), status::invalid_graph);
        EXPECT_NE(std::string(e.message), "");
        EXPECT_STREQ(e.what(), e.message);
    }
    graph g(engine::kind::cpu);
    op nothing(0, op::kind::Add);
    EXPECT_NE(g.add_op(nothing, false), status::success);
}

TEST(onednn_graph_program, compiled_partition_cache) {
    const int capacity = get_compiled_partition_cache_capacity();
    set_compiled_partition_cache_capacity(16);
    EXPECT_EQ(get_compiled_partition_cache_capacity(), 16);
    set_compiled_partition_cache_capacity(capacity);
}

TEST(onednn_graph_program, fpmath_mode_of_a_graph) {
    graph g(engine::kind::cpu);
    fpmath_mode mode = fpmath_mode::any;
    bool apply_to_int = true;
    g.get_fpmath_mode(mode, apply_to_int);
    EXPECT_EQ(mode, fpmath_mode::strict);
    EXPECT_FALSE(apply_to_int);
    g.set_fpmath_mode(fpmath_mode::tf32, true);
    g.get_fpmath_mode(mode, apply_to_int);
    EXPECT_EQ(mode, fpmath_mode::tf32);
    EXPECT_TRUE(apply_to_int);
}

TEST(onednn_graph_program, constant_tensor_cache) {
    EXPECT_EQ(get_constant_tensor_cache(), 0);
    set_constant_tensor_cache(1);
    EXPECT_EQ(get_constant_tensor_cache(), 1);
    set_constant_tensor_cache(0);
    EXPECT_THROW(set_constant_tensor_cache(-1), error);
    set_constant_tensor_cache_capacity(engine::kind::cpu, 1024);
    EXPECT_EQ(get_constant_tensor_cache_capacity(engine::kind::cpu), 1024U);
    EXPECT_EQ(get_constant_tensor_cache_capacity(engine::kind::gpu), 0U);
    EXPECT_THROW(
            set_constant_tensor_cache_capacity(engine::kind::any, 1), error);
}

// Signatures, where a call could compile for the wrong reason. Their types are
// those of dnnl_graph.hpp.
static_assert(std::is_same_v<dim, int64_t>);
static_assert(std::is_same_v<dims, std::vector<int64_t>>);
static_assert(std::is_default_constructible_v<logical_tensor>);
static_assert(std::is_constructible_v<logical_tensor, size_t, data_type,
        int32_t, layout_type, property_type>);
static_assert(std::is_constructible_v<logical_tensor, size_t, data_type, dims,
        size_t, property_type>);
static_assert(std::is_same_v<decltype(&logical_tensor::get_dims),
        dims (logical_tensor::*)() const>);
static_assert(std::is_same_v<decltype(&logical_tensor::get_strides),
        dims (logical_tensor::*)() const>);
static_assert(std::is_same_v<decltype(&logical_tensor::get_mem_size),
        size_t (logical_tensor::*)() const>);
static_assert(std::is_same_v<decltype(&logical_tensor::is_equal),
        bool (logical_tensor::*)(const logical_tensor &) const>);
static_assert(std::is_default_constructible_v<tensor>);
static_assert(std::is_default_constructible_v<partition>);
static_assert(std::is_default_constructible_v<compiled_partition>);
static_assert(std::is_default_constructible_v<allocator>);
static_assert(std::is_same_v<decltype(&graph::add_op),
        status (graph::*)(const op &, bool)>);
static_assert(std::is_same_v<decltype(&graph::get_partitions),
        std::vector<partition> (graph::*)(partition::policy)>);
static_assert(std::is_same_v<decltype(&partition::compile),
        compiled_partition (partition::*)(const std::vector<logical_tensor> &,
                const std::vector<logical_tensor> &, const engine &) const>);
static_assert(std::is_same_v<decltype(&partition::is_supported),
        bool (partition::*)() const>);
static_assert(
        std::is_same_v<decltype(&compiled_partition::query_logical_tensor),
                logical_tensor (compiled_partition::*)(size_t) const>);
static_assert(std::is_same_v<decltype(&compiled_partition::get_inplace_ports),
        std::vector<std::pair<size_t, size_t>> (compiled_partition::*)()
                const>);
// Values that files and C code rely on.
static_assert(static_cast<int>(data_type::f16) == 1
        && static_cast<int>(data_type::bf16) == 2
        && static_cast<int>(data_type::f32) == 3
        && static_cast<int>(data_type::s32) == 4);
static_assert(static_cast<int>(layout_type::any) == 1
        && static_cast<int>(layout_type::strided) == 2
        && static_cast<int>(layout_type::opaque) == 3);
static_assert(static_cast<int>(engine::kind::cpu) == 1
        && static_cast<int>(engine::kind::gpu) == 2);

} // namespace
