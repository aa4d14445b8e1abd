#include "op_chains.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "driver/comparison.hpp"
#include "driver/evaluation.hpp"
#include "op/op_schema.hpp"
#include "random.hpp"

namespace gradnn::test {

namespace {

op link_op(const link &each, const chain_shape &shape, const layout &l,
        data_type type) {
    const auto &[images, channels, space, depthwise, stride] = shape;
    const auto twice = [](const sizes &dims) {
        sizes result = dims;
        for (int64_t &dim : result)
            dim *= 2;
        return result;
    };
    if (each.kind == op::kind::InterpolateBackward)
        return interpolation_op(
                {"up", images, channels, space, twice(space)}, {}, l, type);
    if (each.kind == op::kind::Add || each.kind == op::kind::ReLUBackward)
        return plane_op(each.kind,
                {"plane", {images, channels, space[0], space[1]}}, l, type);
    return convolution_op(each.kind,
            {"conv", images, depthwise ? channels : 1, channels, channels,
                    space, {3, 3}, {stride, stride}, {1, 1}, {1, 1}, {1, 1}},
            l, type);
}

logical_tensor renumbered(const logical_tensor &lt, size_t id) {
    if (lt.get_layout_type() == layout_type::any)
        return {id, lt.get_data_type(), lt.get_dims(), layout_type::any};
    return {id, lt.get_data_type(), lt.get_dims(), lt.get_strides()};
}

size_t gradient_port(const link &each) {
    if (each.kind == op::kind::Add) return each.add_port;
    const auto inputs = detail::find_schema(each.kind)->inputs;
    for (size_t port = 0; port < inputs.size(); ++port)
        if (inputs[port].name == std::string_view("diff_dst")) return port;
    throw std::logic_error("no diff_dst");
}

} // namespace

op with_ports(const op &like, size_t id, std::vector<logical_tensor> inputs,
        std::vector<logical_tensor> outputs) {
    op result(id, like.get_kind(), std::move(inputs), std::move(outputs),
            like.get_name());
    for (const auto &[name, value] : like.get_attrs())
        std::visit([&, key = name](const auto &v) { result.set_attr(key, v); },
                value);
    return result;
}

std::vector<op> chain_of(const std::vector<link> &links, const layout &l,
        data_type type, chain_shape shape) {
    std::vector<op> ops;
    size_t next = 0;
    const auto numbered = [&](std::vector<logical_tensor> ports) {
        for (logical_tensor &lt : ports)
            if (!lt.is_absent()) lt = renumbered(lt, next++);
        return ports;
    };
    for (const link &each : links) {
        // Of an interpolation the larger size comes in.
        if (each.kind == op::kind::InterpolateBackward)
            shape.space = {shape.space[0] / 2, shape.space[1] / 2};
        const op alone = link_op(each, shape, l, type);
        auto inputs = numbered(alone.get_inputs());
        if (!ops.empty())
            inputs.at(gradient_port(each)) = ops.back().get_outputs()[0];
        const auto outputs = numbered(alone.get_outputs());
        ops.push_back(with_ports(alone, ops.size(), inputs, outputs));
    }
    return ops;
}

const std::vector<named_chain> &grouped_chains() {
    using kind = op::kind;
    static const std::vector<named_chain> all = [] {
        std::vector<named_chain> chains;
        for (const kind conv : {kind::ConvBackward,
                     kind::ConvolutionBackwardData, kind::ConvTransposeBackward,
                     kind::ConvTransposeBackwardData}) {
            const std::string name = to_string(conv);
            chains.push_back({name + "_Interpolate",
                    {{conv}, {kind::InterpolateBackward}}});
            chains.push_back({name + "_ReLU", {{conv}, {kind::ReLUBackward}}});
            chains.push_back({name + "_Add", {{conv}, {kind::Add}}});
            chains.push_back({name + "_Add_ReLU",
                    {{conv}, {kind::Add, 1}, {kind::ReLUBackward}}});
        }
        for (const kind conv :
                {kind::ConvBackward, kind::ConvTransposeBackward})
            chains.push_back({std::string("ReLU_") + to_string(conv),
                    {{kind::ReLUBackward}, {conv}}});
        const kind up = kind::InterpolateBackward;
        chains.push_back({"Add_Interpolate", {{kind::Add}, {up}}});
        chains.push_back({"ReLU_Interpolate", {{kind::ReLUBackward}, {up}}});
        chains.push_back({"Interpolate_Add_ReLU",
                {{up}, {kind::Add}, {kind::ReLUBackward}}});
        chains.push_back({"Interpolate_Add", {{up}, {kind::Add}}});
        chains.push_back({"Interpolate_Add_1", {{up}, {kind::Add, 1}}});
        chains.push_back({"Interpolate_ReLU", {{up}, {kind::ReLUBackward}}});
        return chains;
    }();
    return all;
}

graph graph_of(const std::vector<op> &ops, engine::kind kind, int threads) {
    graph built(kind);
    compile_settings settings;
    settings.threads = threads;
    built.set_compile_settings(settings);
    for (const op &each : ops)
        built.add_op(each);
    built.finalize();
    return built;
}

graph_run::graph_run(const std::vector<op> &ops, const engine &e,
        partition::policy policy, int threads, std::set<size_t> infinite,
        size_t offset)
    : engine_(e),
      infinite_(std::move(infinite)),
      offset_(offset),
      partitions_(graph_of(ops, e.get_kind(), threads).get_partitions(policy)) {
    stream s(e);
    std::map<size_t, logical_tensor> known;
    for (const partition &each : partitions_) {
        std::vector<logical_tensor> inputs = each.get_input_ports();
        for (logical_tensor &lt : inputs) {
            if (known.contains(lt.get_id())) lt = known.at(lt.get_id());
            tensor_of(lt, false);
        }
        const auto outputs = each.get_output_ports();
        const auto compiled = each.compile(inputs, outputs, e);
        for (const logical_tensor &lt : outputs) {
            const logical_tensor laid_out
                    = compiled.query_logical_tensor(lt.get_id());
            known[lt.get_id()] = laid_out;
            tensor_of(laid_out, true);
            outputs_.push_back(lt.get_id());
        }
        compiled_.push_back(compiled);
        compiled.execute(s, inputs_of(compiled_.size() - 1),
                outputs_of(compiled_.size() - 1));
    }
    s.wait();
}

test_tensor &graph_run::tensor_of(const logical_tensor &lt, bool computed) {
    auto &place = tensors_[lt.get_id()];
    if (place) return *place;
    place = std::make_unique<test_tensor>(lt, engine_,
            computed ? test_tensor::role::output : test_tensor::role::input,
            offset_);
    if (computed) {
        place->poison();
    } else {
        int64_t count = 1;
        for (const int64_t dim : lt.get_dims())
            count *= dim;
        auto values = random_source(lt.get_id() + 1)
                              .values(static_cast<size_t>(count));
        constexpr double infinity = std::numeric_limits<double>::infinity();
        if (infinite_.contains(lt.get_id()))
            for (size_t i = 0; i < values.size(); i += 1009)
                values[i] = i % 2 == 0 ? infinity : -infinity;
        place->store(values);
    }
    return *place;
}

std::vector<std::byte> graph_run::bytes(size_t id) const {
    return tensors_.at(id)->element_bytes();
}

std::vector<double> graph_run::values(size_t id) const {
    return tensors_.at(id)->load();
}

std::string graph_run::damage() const {
    for (const size_t id : outputs_)
        if (const std::string found = tensors_.at(id)->outside_damage();
                !found.empty())
            return found;
    return {};
}

std::vector<size_t> graph_run::outputs() const {
    return outputs_;
}

std::vector<tensor> graph_run::tensors(
        const std::vector<logical_tensor> &ports) const {
    std::vector<tensor> result;
    for (const logical_tensor &lt : ports)
        result.push_back(tensors_.at(lt.get_id())->get());
    return result;
}

std::vector<tensor> graph_run::inputs_of(size_t index) const {
    return tensors(partitions_[index].get_input_ports());
}

std::vector<tensor> graph_run::outputs_of(size_t index) const {
    return tensors(partitions_[index].get_output_ports());
}

void expect_right(const graph_run &run, const std::vector<op> &ops) {
    const compiled_partition &compiled = run.compiled().at(0);
    driver::partition_reference reference(compiled, fpmath_mode::strict);
    EXPECT_EQ(run.damage(), "");
    const auto outputs = run.outputs();
    const std::set<size_t> made(outputs.begin(), outputs.end());
    for (const op &each : ops) {
        const driver::evaluation exact
                = reference.evaluate(each, [&](const logical_tensor &lt) {
                      return detail::reference_tensor {
                              lt.get_dims(), run.values(lt.get_id())};
                  });
        for (size_t port = 0; port < each.get_outputs().size(); ++port) {
            const logical_tensor &lt = each.get_outputs()[port];
            if (lt.is_absent() || !made.contains(lt.get_id())) continue;
            const auto given = run.values(lt.get_id());
            const auto &wanted = exact.outputs[port].values;
            const auto &held = exact.held[port];
            EXPECT_LE(detail::largest_sum_error(held.promise.type, given,
                              wanted, held.magnitudes),
                    held.promise.chain)
                    << "tensor " << lt.get_id();
            EXPECT_TRUE(driver::keeps_norm(each, port, held.promise,
                    exact.inputs, given,
                    detail::exact_in_normal_range(
                            held.promise.type, given, wanted)))
                    << "tensor " << lt.get_id() << " is off by "
                    << driver::relative_error(given, wanted, wanted);
        }
    }
}

compiled_partition_info expect_same_bits(
        const std::vector<op> &ops, const engine &e, int threads) {
    const graph_run together(ops, e, partition::policy::fusion, threads);
    const graph_run one_by_one(ops, e, partition::policy::debug, threads);
    EXPECT_LT(together.partitions().size(), one_by_one.partitions().size());
    auto info = together.compiled().at(0).get_info();
    if (info.bits_of_ops) {
        for (const size_t id : together.outputs())
            EXPECT_EQ(together.bytes(id), one_by_one.bytes(id))
                    << "tensor " << id;
    } else {
        expect_right(together, ops);
    }
    EXPECT_EQ(together.damage(), "");
    return info;
}

} // namespace gradnn::test
