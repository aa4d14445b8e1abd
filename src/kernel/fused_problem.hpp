// A problem and the ops of single elements around it, for one kernel.
#pragma once

#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::detail {

/// Ops of single elements of what is read, at most one, and of what is written, in
/// order, at most two. Each takes the element at the same place of one more tensor of
/// the same strides (of relu_backward its a), and its result is rounded to the type.
/// Convolutions, which are of data, have none ahead. A bias gradient has ReLU's alone,
/// ahead, whose result is written too: a convolution's other gradients read it.
template <typename Problem>
struct fused_problem {
    Problem problem;
    std::vector<elementwise_kind> prologue = {};
    std::vector<elementwise_kind> epilogue = {};
    // Arguments of the plan: the problem's, then the other tensors of the prologue and
    // of the epilogue (read), then of a bias gradient what its prologue makes (written).
};
using fused_interpolation = fused_problem<interpolation_problem>;
using fused_convolution = fused_problem<convolution_problem>;
using fused_bias = fused_problem<bias_problem>;

} // namespace gradnn::detail
