// The ops of a partition in one kernel: ops of single elements in the loads and the
// stores of an interpolation.
#pragma once

#include <optional>
#include <vector>

#include "compile/composed.hpp"
#include "kernel/fused_interpolation.hpp"

namespace gradnn::detail {

struct fused_step {
    fused_interpolation problem;
    placed_step placed; ///< of the interpolation alone, but for its places
};

/// The one step of a partition that is an interpolation, Add or ReLUBackward ahead of
/// it, and one or two of them behind it. Nothing where it is something else, and where
/// a tensor that an element comes from has other dims or strides than the one that it
/// goes to.
std::optional<fused_step> fused(const std::vector<placed_step> &steps,
        const std::vector<logical_tensor> &tensors);

} // namespace gradnn::detail
