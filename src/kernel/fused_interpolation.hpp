// An interpolation and the ops of single elements around it, for one kernel.
#pragma once

#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::detail {

/// Ops of single elements of what is read, at most one, and of what is written, in
/// order, at most two. Each takes the element at the same place of one more tensor of
/// the same strides (of relu_backward its a), and its result is rounded to the type.
struct fused_interpolation {
    interpolation_problem interpolation;
    std::vector<elementwise_kind> prologue = {};
    std::vector<elementwise_kind> epilogue = {};
    // Arguments of the plan: 0 diff_dst (read), 1 diff_src (written), then the other
    // tensors of the prologue and of the epilogue (read).
};

} // namespace gradnn::detail
