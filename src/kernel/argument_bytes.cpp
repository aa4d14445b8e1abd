#include "kernel/argument_bytes.hpp"

namespace gradnn::detail {

namespace {

size_t bytes_of(const auto &tensor) {
    int64_t last = 0;
    for (size_t axis = 0; axis < tensor.dims.size(); ++axis)
        last += (tensor.dims[axis] - 1) * tensor.strides[axis];
    return static_cast<size_t>((last + 1) * size_of(tensor.type));
}

} // namespace

std::vector<size_t> argument_bytes(const interpolation_problem &problem) {
    return {bytes_of(problem.diff_dst), bytes_of(problem.diff_src)};
}

std::vector<size_t> argument_bytes(const convolution_problem &problem) {
    return {bytes_of(problem.src), bytes_of(problem.weights),
            bytes_of(problem.dst)};
}

} // namespace gradnn::detail
