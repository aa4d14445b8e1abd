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

std::vector<size_t> argument_bytes(const elementwise_problem &problem) {
    const auto bytes = [&](const auto &strides) {
        int64_t last = 0;
        for (size_t axis = 0; axis < static_cast<size_t>(problem.rank); ++axis)
            last += (problem.dims[axis] - 1) * strides[axis];
        return static_cast<size_t>((last + 1) * size_of(problem.type));
    };
    std::vector<size_t> all;
    if (problem.kind != elementwise_kind::zero_fill)
        all = {bytes(problem.a_strides), bytes(problem.b_strides)};
    all.push_back(bytes(problem.out_strides));
    return all;
}

std::vector<size_t> argument_bytes(const fused_interpolation &of) {
    auto all = argument_bytes(of.problem);
    all.insert(all.end(), of.prologue.size(), all[0]);
    all.insert(all.end(), of.epilogue.size(), all[1]);
    return all;
}

std::vector<size_t> argument_bytes(const fused_convolution &of) {
    auto all = argument_bytes(of.problem);
    all.insert(all.end(), of.epilogue.size(),
            of.problem.direction == convolution_direction::backward_data
                    ? all[0]
                    : all[2]);
    return all;
}

} // namespace gradnn::detail
