#include "gpu/convolution/facts.hpp"

#include "gpu/device/rounding.hpp"

namespace gradnn::gpu {

double rounded_up(int64_t count, int64_t multiple) {
    return static_cast<double>(round_up(count, multiple));
}

double elements_of(const detail::tensor_view &tensor) {
    double elements = 1;
    for (const int64_t dim : tensor.dims)
        elements *= static_cast<double>(dim);
    return elements;
}

bool is_ncx(const detail::tensor_view &tensor) {
    int64_t next = 1;
    for (size_t axis = tensor.dims.size(); axis-- > 0;) {
        if (tensor.dims[axis] != 1 && tensor.strides[axis] != next)
            return false;
        next *= tensor.dims[axis];
    }
    return tensor.dims[1] != 1;
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
    const bool to_src
            = problem.direction == detail::convolution_direction::backward_data;
    return weights[3] * weights[4] * weights[5] * weights[to_src ? 1 : 2];
}

// A thread of gpu_few_channels has 16 neighbouring columns (of strides up to 2), a block
// rows of one plane. H100, 6f5a3d2, planes of 3x6 and 7x10, 0.04 and 0.14 of the lanes:
// 2.9 and 5.2 ms, gpu_narrow_groups 0.37 and 1.2, gpu_direct 0.67 and 2.2; of 160x89, 0.9
// of the lanes, 0.28 ms and 0.73.
bool leaves_lanes_idle(const convolution_problem &problem) {
    constexpr int64_t cells = 16;
    constexpr int64_t warp = 32;
    const int64_t rows = problem.src.dims[3];
    const int64_t columns = problem.src.dims[4];
    if (rows == 1) return false; // it has lines for these
    const int64_t threads = rows * ceil_div(columns, cells);
    return 4 * rows * columns < round_up(threads, warp) * cells;
}

bool has_few_channels(
        const convolution_problem &problem, const compile_options &options) {
    return problem.direction == detail::convolution_direction::backward_data
            && problem.weights.dims[0] == 1 && problem.src.dims[1] <= 4
            && problem.src.type == detail::data_type::f32
            && options.fpmath == fpmath_mode::strict;
}

} // namespace gradnn::gpu
