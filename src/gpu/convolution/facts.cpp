#include "gpu/convolution/facts.hpp"

#include "gpu/device/rounding.hpp"

namespace gradnn::gpu {

using detail::convolution_direction;

double rounded_up(int64_t count, int64_t multiple) {
    return static_cast<double>(round_up(count, multiple));
}

double elements_of(const detail::tensor_view &tensor) {
    double elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= static_cast<double>(dim);
    return elements;
}

bool is_of_weights(const convolution_problem &problem) {
    return problem.direction == convolution_direction::backward_weights;
}

bool is_to_src(const convolution_problem &problem) {
    return problem.direction == convolution_direction::backward_data;
}

bool are_channels_last(const convolution_problem &problem) {
    // An axis of one element has a stride of 0.
    return problem.src.strides[1] <= 1 && problem.dst.strides[1] <= 1;
}

bool are_dense(
        const detail::tensor_view &tensor, std::initializer_list<size_t> axes) {
    int64_t next = 1;
    for (const size_t axis : axes) {
        if (tensor.dims[axis] != 1 && tensor.strides[axis] != next)
            return false;
        next *= tensor.dims[axis];
    }
    return true;
}

int64_t positions_of(const detail::tensor_view &tensor) {
    return tensor.dims[2] * tensor.dims[3] * tensor.dims[4];
}

bool is_matrix_product(const convolution_problem &problem) {
    for (size_t axis = 0; axis < 3; ++axis)
        if (problem.weights.dims[3 + axis] != 1 || problem.strides[axis] != 1
                || problem.pads_begin[axis] != 0
                || problem.src.dims[2 + axis] != problem.dst.dims[2 + axis])
            return false;
    return problem.weights.dims[0] == 1;
}

int64_t terms_of_data(const convolution_problem &problem) {
    const auto &weights = problem.weights.dims;
    return weights[3] * weights[4] * weights[5]
            * weights[is_to_src(problem) ? 1 : 2];
}

} // namespace gradnn::gpu
