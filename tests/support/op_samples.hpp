// Right ops for tables of errors, to be changed in one thing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_runner.hpp"

namespace gradnn::test::samples {

using lt = logical_tensor;
using attr = op::attr;
using sizes = std::vector<int64_t>;

/// What graph::add_op says of it.
inline void add(const op &the_op) {
    graph g(engine::kind::cpu);
    g.add_op(the_op);
}

inline lt f32(size_t id, const sizes &dims) {
    return {id, data_type::f32, dims, layout_type::strided};
}

/// ReLUBackward of these tensors, 2x3x4 f32.
inline op relu(size_t id, size_t src, size_t diff_dst, size_t diff_src) {
    const sizes dims {2, 3, 4};
    return {id, op::kind::ReLUBackward, {f32(src, dims), f32(diff_dst, dims)},
            {f32(diff_src, dims)}, "relu" + std::to_string(id)};
}

/// A right interpolation, to be changed: 1x2x4x4 to 1x2x8x8, NCX, sizes.
inline op interpolation(
        const std::vector<lt> &inputs, const std::vector<lt> &outputs) {
    op result(3, op::kind::InterpolateBackward, inputs, outputs, "up");
    result.set_attr<std::string>(attr::mode, "linear");
    result.set_attr<std::string>(attr::data_format, "NCX");
    result.set_attr(attr::sizes, sizes {8, 8});
    return result;
}
inline op interpolation() {
    return interpolation({f32(0, {1, 2, 4, 4}), f32(1, {1, 2, 8, 8})},
            {f32(2, {1, 2, 4, 4})});
}
template <typename Value>
std::function<void()> interpolation_with(attr name, const Value &value) {
    return [=] { add(interpolation().set_attr(name, value)); };
}
/// Without sizes.
inline std::function<void()> scaled(
        const std::vector<float> &scales, const std::string &rule = "") {
    return [=] {
        op the_op(3, op::kind::InterpolateBackward,
                {f32(0, {1, 2, 4, 4}), f32(1, {1, 2, 8, 8})},
                {f32(2, {1, 2, 4, 4})}, "up");
        the_op.set_attr<std::string>(attr::mode, "linear");
        the_op.set_attr<std::string>(attr::data_format, "NCX");
        if (!scales.empty()) the_op.set_attr(attr::scales, scales);
        if (!rule.empty()) the_op.set_attr(attr::scale_rule, rule);
        add(the_op);
    };
}

/// A right convolution, to be changed: src 1x4x9x9, 3x3 kernels, dst 1x6x7x7.
inline op convolution(
        const std::vector<lt> &inputs, const std::vector<lt> &outputs) {
    op result(4, op::kind::ConvBackward, inputs, outputs, "conv");
    result.set_attr(attr::strides, sizes {1, 1});
    result.set_attr(attr::dilations, sizes {1, 1});
    result.set_attr(attr::pads_begin, sizes {0, 0});
    result.set_attr(attr::pads_end, sizes {0, 0});
    result.set_attr<std::string>(attr::data_format, "NCX");
    result.set_attr<std::string>(attr::weights_format, "OIX");
    return result;
}
inline op convolution() {
    return convolution(
            {f32(0, {1, 6, 7, 7}), f32(1, {1, 4, 9, 9}), f32(2, {6, 4, 3, 3})},
            {f32(3, {1, 4, 9, 9})});
}
template <typename Value>
std::function<void()> convolution_with(attr name, const Value &value) {
    return [=] { add(convolution().set_attr(name, value)); };
}
inline std::function<void()> convolution_of(
        const sizes &diff_dst, const sizes &src, const sizes &weights) {
    return [=] {
        add(convolution({f32(0, diff_dst), f32(1, src), f32(2, weights)},
                {f32(3, src)}));
    };
}

} // namespace gradnn::test::samples
