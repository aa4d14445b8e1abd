// From an op whose shapes are known to the problems that compute it.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "kernel/problem.hpp"
#include "op/checked_op.hpp"

namespace gradnn::detail {

/// One problem, which ports are its plan's arguments, in the order that the
/// problem's struct names, and which output is among them.
struct lowered_step {
    std::variant<interpolation_problem, convolution_problem, bias_problem,
            elementwise_problem>
            problem;
    std::vector<port_reference> arguments;
    size_t output = 0;
};

/// A stride no one multiplies by anything but 0 must not matter: 1-wide axes
/// get 0, so that equal problems look equal.
constexpr int64_t stride_of(int64_t dim, int64_t stride) {
    return dim == 1 ? 0 : stride;
}

/// The steps of an op, whose shapes are complete and whose ports that are
/// present are strided. Outputs without elements get no step;
/// outputs that are sums over nothing are zero-filled. Attributes of
/// convolutions that cannot matter have small values
/// (convolution_window.hpp), and index arithmetic of kernels in 64 bits does
/// not overflow: throws invalid_shape where it would.
std::vector<lowered_step> lower(const checked_op &the_op);

/// Lays out the data that a step's convolution writes anew, in the op and in the
/// problem: dense, with the channels side by side. Throws as lower does.
void lay_channels_last(checked_op &the_op, lowered_step &step);

} // namespace gradnn::detail
