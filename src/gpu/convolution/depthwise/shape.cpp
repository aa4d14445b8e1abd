// Depthwise: what its kernels are told of a problem.
#include <algorithm>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/device/rounding.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::depthwise {

namespace {

/// Rows follow one another, and planes of the channels and images.
bool without_gaps(const int64_t *strides, const problem_shape &shape, int rows,
        int columns) {
    const int64_t plane = int64_t {rows} * columns;
    return (columns == 1 || strides[4] == 1)
            && (rows == 1 || strides[3] == columns)
            && (shape.channels == 1 || strides[1] == plane)
            && (shape.images == 1 || strides[0] == plane * shape.channels);
}

} // namespace

problem_shape shape_of(const detail::convolution_problem &problem) {
    problem_shape shape;
    shape.to_src
            = problem.direction == detail::convolution_direction::backward_data;
    const detail::tensor_view &read = shape.to_src ? problem.dst : problem.src;
    const detail::tensor_view &written
            = shape.to_src ? problem.src : problem.dst;
    shape.images = read.dims[0];
    shape.channels = read.dims[1];
    std::copy(read.strides.begin(), read.strides.end(), shape.read_strides);
    std::copy(written.strides.begin(), written.strides.end(),
            shape.written_strides);
    shape.weights_strides[0] = problem.weights.strides[0];
    for (size_t i = 0; i < 3; ++i) {
        shape.weights_strides[i + 1] = problem.weights.strides[i + 3];
        window_axis &axis = shape.axes[i];
        axis.read = static_cast<int>(read.dims[i + 2]);
        axis.written = static_cast<int>(written.dims[i + 2]);
        axis.kernel = static_cast<int>(problem.weights.dims[i + 3]);
        axis.stride = static_cast<int>(problem.strides[i]);
        axis.dilation = static_cast<int>(problem.dilations[i]);
        axis.pad = static_cast<int>(problem.pads_begin[i]);
    }
    return shape;
}

bool window_is_usual(const problem_shape &shape) {
    const window_axis &deep = shape.axes[0];
    if (deep.kernel != 1 || deep.pad != 0 || deep.read != deep.written)
        return false;
    const int size = shape.axes[2].kernel;
    if (size != 3 && size != 5 && size != 7) return false;
    for (const window_axis *axis : {&shape.axes[1], &shape.axes[2]})
        if (axis->stride != shape.axes[2].stride || axis->dilation != 1
                || axis->kernel != size)
            return false;
    return true;
}

int positions_after(const window_axis &axis, bool to_src) {
    return axis.written - axis.read + axis.kernel - 1
            - taps_before(axis, to_src);
}

bool pads_are_short(const window_axis &axis, bool to_src) {
    const int before = taps_before(axis, to_src);
    return before >= 0 && before < axis.kernel
            && positions_after(axis, to_src) < axis.kernel;
}

bool window_slides(const problem_shape &shape) {
    if (!window_is_usual(shape) || shape.axes[2].kernel == 3
            || shape.axes[0].read != 1)
        return false;
    for (const window_axis *axis : {&shape.axes[1], &shape.axes[2]})
        if (axis->stride != 1 || !pads_are_short(*axis, shape.to_src))
            return false;
    return true;
}

bool window_is_a_row(const problem_shape &shape) {
    for (const window_axis *axis : {&shape.axes[0], &shape.axes[1]})
        if (axis->kernel != 1 || axis->stride != 1 || axis->pad != 0
                || axis->read != axis->written)
            return false;
    return shape.axes[2].stride == 1 && shape.axes[2].dilation == 1;
}

bool rows_are_wide(const problem_shape &shape, int pads) {
    const window_axis &along = shape.axes[2];
    return along.read % 2 == 0 && along.written % 2 == 0
            && (along.pad - usual_pad(along.kernel)) % pads == 0;
}

bool planes_without_gaps(const problem_shape &shape) {
    const auto &[deep, down, along] = shape.axes;
    // Offsets within a plane are 32-bit.
    return int64_t {std::max(down.read, down.written)}
                    * std::max(along.read, along.written)
            <= INT32_MAX
            && without_gaps(shape.read_strides, shape, down.read, along.read)
            && without_gaps(
                    shape.written_strides, shape, down.written, along.written);
}

} // namespace gradnn::gpu::depthwise
