// What rules (measured_*.cpp) and estimates ask of a convolution.
#pragma once

#include <initializer_list>
#include <numeric>

#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"

namespace gradnn::gpu {

template <typename View>
double elements_of(const View &tensor) {
    double elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= static_cast<double>(dim);
    return elements;
}

inline bool is_of_weights(const convolution_problem &problem) {
    return problem.direction == detail::convolution_direction::backward_weights;
}

inline bool is_to_src(const convolution_problem &problem) {
    return problem.direction == detail::convolution_direction::backward_data;
}

/// Whether src and dst have neighbouring channels, or one, whose stride is 0.
inline bool are_channels_last(const convolution_problem &problem) {
    return problem.src.strides[1] <= 1 && problem.dst.strides[1] <= 1;
}

/// Whether these axes follow each other without gaps, the innermost first.
inline bool are_dense(
        const detail::tensor_view &tensor, std::initializer_list<size_t> axes) {
    int64_t next = 1;
    for (const size_t axis : axes) {
        if (tensor.dims[axis] != 1 && tensor.strides[axis] != next)
            return false;
        next *= tensor.dims[axis];
    }
    return true;
}

/// Position y of dst meets y * stride - pad + k * dilation of src, for each k of the window.
struct spatial_axis {
    int64_t src, dst, window, stride, dilation, pad;

    /// From the first position of src that a window meets to its last one, both included.
    int64_t reach() const { return (window - 1) * dilation + 1; }
    /// The same of all windows.
    int64_t span() const { return (dst - 1) * stride + reach(); }
};

inline spatial_axis spatial_axis_of(
        const convolution_problem &problem, size_t axis) {
    return {problem.src.dims[axis + 2], problem.dst.dims[axis + 2],
            problem.weights.dims[axis + 3], problem.strides[axis],
            problem.dilations[axis], problem.pads_begin[axis]};
}

/// Of an image.
inline int64_t positions_of(const detail::tensor_view &tensor) {
    return tensor.dims[2] * tensor.dims[3] * tensor.dims[4];
}

/// Whether a kernel needs three spatial axes: convolutions of one and two dimensions have no
/// depth.
inline bool has_depth(const convolution_problem &problem) {
    return problem.src.dims[2] != 1 || problem.weights.dims[3] != 1
            || problem.dst.dims[2] != 1 || problem.pads_begin[0] != 0;
}

/// Of one group, a window of one point: a product of matrices where they lie.
inline bool is_matrix_product(const convolution_problem &problem) {
    for (size_t axis = 0; axis < 3; ++axis)
        if (problem.weights.dims[3 + axis] != 1 || problem.strides[axis] != 1
                || problem.pads_begin[axis] != 0
                || problem.src.dims[2 + axis] != problem.dst.dims[2 + axis])
            return false;
    return problem.weights.dims[0] == 1;
}

/// Taps along an axis that meet one point of what is written, at most: strides share them out
/// among the points of src.
inline int64_t taps_of_a_point(
        const convolution_problem &problem, size_t axis) {
    const int64_t stride = problem.strides[axis];
    return ceil_div(problem.weights.dims[3 + axis],
            is_to_src(problem)
                    ? stride / std::gcd(stride, problem.dilations[axis])
                    : 1);
}

/// Bytes of an element as tensor cores multiply it: those of relaxed f32 multiply once, as
/// in 16 bits, those of strict f32 three times.
inline int64_t multiplied_bytes(
        const convolution_problem &problem, const compile_options &options) {
    const auto type = problem.src.type;
    return type == detail::data_type::f32
                    && options.fpmath != fpmath_mode::strict
            ? 2
            : detail::size_of(type);
}

/// Terms of a sum that is no gradient of weights, were there no strides.
inline int64_t terms_of_data(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    return weights[3] * weights[4] * weights[5]
            * weights[is_to_src(problem) ? 1 : 2];
}

/// Up to which cuDNN's sums of that kind are trusted, in strict f32 and in f64: in f32 18,432
/// terms are 2.4e-6 off in norm, 2e-6 is promised.
constexpr int64_t most_cudnn_terms(detail::data_type type) {
    return type == detail::data_type::f64 ? 65536 : 12288;
}

} // namespace gradnn::gpu
