// Nearest upsampling and convolution as one convolution of the small tensor.
//
// Upsampled by r and convolved with a window of k points, a tensor gives what its
// transposed convolution with stride r gives by a window of k + r - 1 composed weights:
//   V[m] = sum over 0 <= t < r of W[k - 1 - m + t], weights outside being 0,
// along each axis. So the gradient of the small tensor is a convolution of diff_dst
// with V and stride r, the gradient of V is that convolution's, and the one of W is
// composed of it by the same sums (interpolation_mode::box). Neither the upsampled
// tensor nor its gradient is made.
#pragma once

#include <optional>
#include <vector>

#include "compile/lowering.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::detail {

/// A step and the tensors of its arguments: ports of the partition, then inner
/// tensors, then those that a composition makes.
struct placed_step {
    lowered_step lowered;
    size_t op = 0; ///< that it belongs to
    std::vector<size_t> places;
    const char *makes = nullptr; ///< where that is no output of the op
};

/// Adds the steps of an op to those of the ops before; `tensors` are the ports, and
/// behind them the inner tensors.
void place(std::vector<placed_step> &steps, std::vector<lowered_step> of_op,
        const checked_op &the_op, size_t index,
        const std::vector<logical_tensor> &tensors);

/// Leaves out interpolations to tensors behind so many ports that no step reads: an
/// upsampled src, where the gradient of a bias alone is wanted.
void leave_out_unread(std::vector<placed_step> &steps, size_t ports);

struct composition {
    /// The composed weights and their gradient, where they are needed.
    std::vector<logical_tensor> made;
    std::vector<placed_step> steps;
};

/// The steps of a partition in that form, whose first tensor `made` has that place.
/// Nothing where the partition has no such ops, where an upsampled size is no multiple
/// of the size before or elements are not repeated so, and where strides or dilations
/// of the convolution are not 1.
std::optional<composition> composed(const std::vector<checked_op> &ops,
        const std::vector<placed_step> &steps, size_t first_made);

/// An estimate of the time that steps take, in seconds, good enough to compare the
/// two forms of a partition.
double estimated_time(const std::vector<placed_step> &steps, engine::kind kind,
        const compile_options &options);

/// Names that compile_settings::kernels may have beside those of kernels: they choose
/// the form of the partitions that have both.
constexpr const char *composed_form = "partition.composed";
constexpr const char *form_of_ops = "partition.ops";

} // namespace gradnn::detail
