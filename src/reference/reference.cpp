#include "reference/reference.hpp"

#include <algorithm>
#include <cctype>

#include "reference/ops.hpp"

namespace gradnn::detail {

std::string reference_word(
        const op &the_op, op::attr name, const char *fallback) {
    const auto found = the_op.get_attrs().find(name);
    std::string word = found == the_op.get_attrs().end()
            ? fallback
            : std::get<std::string>(found->second);
    std::transform(word.begin(), word.end(), word.begin(),
            [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return word;
}

std::vector<int64_t> reference_list(const op &the_op, op::attr name) {
    const auto found = the_op.get_attrs().find(name);
    if (found == the_op.get_attrs().end()) return {};
    return std::get<std::vector<int64_t>>(found->second);
}

reference_tensor reference_output(const op &the_op, size_t index) {
    const auto &outputs = the_op.get_outputs();
    if (index >= outputs.size() || outputs[index].is_absent()) return {};
    reference_tensor result {outputs[index].get_dims(), {}};
    int64_t count = 1;
    for (const int64_t dim : result.dims)
        count *= dim;
    result.values.assign(static_cast<size_t>(count), 0.0);
    return result;
}

namespace {

/// Calls body(index in the planes, index in the tensor) for every element.
template <typename Body>
void for_each_element(
        const std::array<int64_t, 5> &dims, bool channels_last, Body body) {
    const int64_t space = dims[2] * dims[3] * dims[4];
    for (int64_t n = 0; n < dims[0]; ++n)
        for (int64_t c = 0; c < dims[1]; ++c)
            for (int64_t x = 0; x < space; ++x) {
                const int64_t plane = (n * dims[1] + c) * space + x;
                const int64_t interleaved = (n * space + x) * dims[1] + c;
                body(static_cast<size_t>(plane),
                        static_cast<size_t>(
                                channels_last ? interleaved : plane));
            }
}

} // namespace

planes to_planes(const reference_tensor &tensor, bool channels_last) {
    planes result;
    const size_t rank = tensor.dims.size();
    const size_t spatial_rank = rank - 2;
    result.dims[0] = tensor.dims[0];
    result.dims[1] = channels_last ? tensor.dims.back() : tensor.dims[1];
    for (size_t axis = 0; axis < spatial_rank; ++axis)
        result.dims[5 - spatial_rank + axis]
                = tensor.dims[(channels_last ? 1 : 2) + axis];
    result.values.resize(tensor.values.size());
    for_each_element(result.dims, channels_last, [&](size_t to, size_t from) {
        result.values[to] = tensor.values[from];
    });
    return result;
}

void from_planes(
        const planes &from, bool channels_last, reference_tensor &tensor) {
    for_each_element(from.dims, channels_last,
            [&](size_t of, size_t to) { tensor.values[to] = from.values[of]; });
}

void reference_bias(const planes &diff_dst, reference_tensor &diff_bias) {
    const auto &dims = diff_dst.dims;
    const int64_t space = dims[2] * dims[3] * dims[4];
    for (int64_t c = 0; c < dims[1]; ++c) {
        double sum = 0;
        double low = 0;
        for (int64_t n = 0; n < dims[0]; ++n) {
            const double *const plane
                    = diff_dst.values.data() + (n * dims[1] + c) * space;
            for (int64_t x = 0; x < space; ++x)
                add_compensated(sum, low, plane[x]);
        }
        diff_bias.values[static_cast<size_t>(c)] = sum + low;
    }
}

namespace {

reference_tensors bias_add(const op &the_op, const reference_tensors &inputs) {
    const bool channels_last
            = reference_word(the_op, op::attr::data_format, "nxc") == "nxc";
    reference_tensors outputs {reference_output(the_op, 0)};
    reference_bias(to_planes(inputs[0], channels_last), outputs[0]);
    return outputs;
}

/// Where src > 0 the gradient passes; dst = max(src, 0) has the same sign, so
/// use_dst makes no difference. A NaN is not above 0.
reference_tensors relu(const op &the_op, const reference_tensors &inputs) {
    reference_tensors outputs {reference_output(the_op, 0)};
    for (size_t i = 0; i < outputs[0].values.size(); ++i)
        outputs[0].values[i]
                = inputs[0].values[i] > 0 ? inputs[1].values[i] : 0.0;
    return outputs;
}

/// The element of a tensor that numpy's rules broadcast to element `index` of
/// one with dims `shape`: both counted row by row, the last axis fastest.
size_t broadcast_from(const reference_tensor &tensor,
        const logical_tensor::dims &shape, size_t index) {
    size_t from = 0;
    size_t step = 1;
    for (size_t back = 1; back <= tensor.dims.size(); ++back) {
        const auto size = static_cast<size_t>(shape[shape.size() - back]);
        const auto own
                = static_cast<size_t>(tensor.dims[tensor.dims.size() - back]);
        if (own != 1) from += index % size * step;
        step *= own;
        index /= size;
    }
    return from;
}

reference_tensors add(const op &the_op, const reference_tensors &inputs) {
    reference_tensors outputs {reference_output(the_op, 0)};
    const auto &shape = outputs[0].dims;
    for (size_t i = 0; i < outputs[0].values.size(); ++i)
        outputs[0].values[i]
                = inputs[0].values[broadcast_from(inputs[0], shape, i)]
                + inputs[1].values[broadcast_from(inputs[1], shape, i)];
    return outputs;
}

} // namespace

reference_tensors reference(const op &the_op, const reference_tensors &inputs) {
    switch (the_op.get_kind()) {
        case op::kind::Add: return add(the_op, inputs);
        case op::kind::ReLUBackward: return relu(the_op, inputs);
        case op::kind::BiasAddBackward: return bias_add(the_op, inputs);
        case op::kind::Interpolate:
        case op::kind::InterpolateBackward:
            return reference_interpolation(the_op, inputs);
        case op::kind::ConvBackward:
        case op::kind::ConvTransposeBackward:
        case op::kind::ConvTransposeBackwardData:
        case op::kind::ConvTransposeBackwardWeights:
        case op::kind::ConvolutionBackwardData:
        case op::kind::ConvolutionBackwardWeights:
            return reference_convolution(the_op, inputs);
        default: break; // of another library
    }
    throw error(status::invalid_arguments, "reference: no such op kind");
}

} // namespace gradnn::detail
