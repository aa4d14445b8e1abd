// The launch that makes gradients of weights of their partial sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/convolution/operands.hpp"

namespace gradnn::gpu {

/// What so many partial sums of each weight take, in the type of sums.
size_t partial_weights_bytes(
        const detail::convolution_problem &problem, int64_t parts);

/// Those of one part, as the weights of a problem like it.
detail::weights_view partial_weights_view(
        const detail::convolution_problem &problem);

/// Adds them up, from the begin of the workspace, in the order that partial_weights has
/// (weights_sum.cuh). `has_zeros`: they have products of zeros that stand for what lies
/// outside. src and dst of the problem are those that the kernels are given.
launcher weights_sum_launcher(const char *name,
        const detail::convolution_problem &problem, int64_t parts,
        bool has_zeros);

} // namespace gradnn::gpu
