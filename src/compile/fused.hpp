// The ops of a partition in one kernel: ops of single elements in the loads and the
// stores of an interpolation, or in the stores of a convolution's data; or ReLU's gradient
// in the loads of a bias gradient.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "compile/composed.hpp"
#include "kernel/fused_problem.hpp"

namespace gradnn::detail {

/// What is kept of a partition whose ops were measured to be faster so.
constexpr const char *fused_form = "partition.fused";

struct fused_step {
    std::variant<fused_interpolation, fused_convolution, fused_bias> problem;
    placed_step placed; ///< of the problem alone, but for its places
    std::vector<placed_step> beside; ///< a convolution's other gradients

    /// Whether the others read what it writes, else it comes last.
    bool comes_first() const {
        return std::holds_alternative<fused_bias>(problem);
    }
    /// All, in order.
    std::vector<placed_step> steps() const {
        std::vector<placed_step> all = beside;
        all.insert(comes_first() ? all.begin() : all.end(), placed);
        return all;
    }
};

/// Of a partition that is an interpolation, Add or ReLUBackward ahead of it, and one or
/// two of them behind it; or the gradients of a convolution and one or two of them
/// behind that of the data; or ReLUBackward ahead of a convolution with a bias gradient.
/// Nothing where it is something else, and where a tensor that an element comes from has
/// other dims or strides than the one that it goes to.
/// Tensors are `ports` ports, and behind them those inside.
std::optional<fused_step> fused(const std::vector<placed_step> &steps,
        const std::vector<logical_tensor> &tensors, size_t ports);

} // namespace gradnn::detail
