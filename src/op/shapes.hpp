// Shape rules: which dims the ports of an op must have, and what the dims of
// its outputs follow from.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "op/checked_op.hpp"

namespace gradnn::detail {

/// The attributes of a convolution by spatial axis, auto_pad resolved.
struct convolution_geometry {
    int spatial_rank = 0;
    int64_t groups = 1;
    std::array<int64_t, 3> kernel {1, 1, 1};
    std::array<int64_t, 3> strides {1, 1, 1};
    std::array<int64_t, 3> dilations {1, 1, 1};
    std::array<int64_t, 3> pads_begin {0, 0, 0};
    std::array<int64_t, 3> pads_end {0, 0, 0};
};

/// The outputs with their dims filled in. The op has passed check_ports, and
/// the dims of all inputs are known. Throws invalid_shape where ports or
/// attributes disagree; where output dims do not follow from anything, throws
/// if `complete` is set and leaves them unknown otherwise.
std::vector<logical_tensor> outputs_with_dims(
        const checked_op &the_op, bool complete);

/// Whether an op's inputs are broadcast to the dims of its output, aligned at
/// the last axis.
bool broadcasts(const checked_op &the_op);

/// Whether an interpolation computes dst, not diff_src.
bool is_forward_interpolation(const checked_op &the_op);

/// Of a convolution op whose large tensor and weights have these dims.
convolution_geometry geometry_of(const checked_op &the_op,
        std::span<const int64_t> large, std::span<const int64_t> weights);

/// Axis of the channels, and the first spatial axis, of a tensor of `rank` in
/// the op's data_format.
int channel_axis(const checked_op &the_op, int rank);
int first_spatial_axis(const checked_op &the_op);

/// Where a weights tensor of `rank` keeps the channels of the small tensor,
/// those of the large one (of one group), and its first spatial axis.
struct weights_axes {
    int small;
    int large;
    int spatial;
};
weights_axes weights_axes_of(const checked_op &the_op, int rank);

/// What an s32 shape input must hold at execute, of an op whose outputs have
/// their dims.
std::vector<int64_t> expected_shape_input(const checked_op &the_op);

} // namespace gradnn::detail
