// Which outputs of an interpolation axis touch which inputs, exactly.
//
// The one place where coordinates become taps, for every kernel of every
// engine. (The reference has its own, so that it can check this one.)
#pragma once

#include <cstdint>
#include <vector>

#include "problem.hpp"

namespace gradnn::detail {

/// The map of one axis in both directions.
///
/// Forward: output o reads src[low[o]] * low_weight[o]
/// + src[high[o]] * high_weight[o], high[o] being low[o] + 1 or, where that
/// tap has weight 0 or falls on the same element, low[o] (then high_weight is
/// 0 and low_weight 1 or the sum).
///
/// Gathered: src element i receives the outputs first[i] <= o < first[i] +
/// count[i], output o with weights[offset[i] + o - first[i]]. Outputs whose
/// weight is 0 at either end of the range are not in it, and inside it no
/// weight is 0: a tap of weight 0 is no tap, so Inf and NaN do not travel
/// along it.
struct axis_map {
    int64_t src = 0;
    int64_t dst = 0;

    // By output o; dst elements each.
    std::vector<int64_t> low;
    std::vector<int64_t> high;
    std::vector<double> low_weight;
    std::vector<double> high_weight;

    // By input i; src elements each (offset: src + 1).
    std::vector<int64_t> first;
    std::vector<int64_t> count;
    std::vector<int64_t> offset;
    /// At most 2 * dst, in the order of the inputs.
    std::vector<double> weights;

    /// The most outputs that touch one input.
    int64_t max_count = 0;
    /// Every output touches the input of its own index, with weight 1.
    bool identity = false;
};

/// Coordinates are ratios of integers and are floored in 128-bit integer
/// arithmetic; weights are rounded once, to double. Where axis.arithmetic is
/// not exact, coordinates are rounded as it says.
axis_map make_axis_map(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis);

} // namespace gradnn::detail
