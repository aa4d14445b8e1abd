// Shape rules: which dims the ports of an op must have, and what the dims of
// its outputs follow from.
#pragma once

#include <array>
#include <cstdint>

#include <gradnn/op.hpp>

#include "op_schema.hpp"

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

/// Throws where ports whose rank is known disagree in it, or a list attribute
/// has not as many values as that rank wants. `the_op` has passed the checks
/// of op_check.cpp before these.
void check_ranks(const op &the_op, const op_schema &schema);

/// The op with the dims of its outputs filled in. The dims of all inputs are
/// known. Throws invalid_shape where ports or attributes disagree; where
/// output dims do not follow from anything, throws if `complete` is set and
/// leaves them unknown otherwise.
op with_shapes(const op &the_op, bool complete);

/// Whether an op's inputs are broadcast to the dims of its output, aligned at
/// the last axis.
bool broadcasts(const op &the_op);

/// Of an op that with_shapes(the_op, true) returned.
convolution_geometry geometry_of(const op &the_op);

/// Axis of the channels, and the first spatial axis, of a tensor of `rank` in
/// the op's data_format.
int channel_axis(const op &the_op, int rank);
int first_spatial_axis(const op &the_op);

/// Where a weights tensor of `rank` keeps the channels of the small tensor,
/// those of the large one (of one group), and its first spatial axis.
struct weights_axes {
    int small;
    int large;
    int spatial;
};
weights_axes weights_axes_of(const op &the_op, int rank);

/// What an s32 shape input must hold at execute; `the_op` as above.
std::vector<int64_t> expected_shape_input(const op &the_op);

} // namespace gradnn::detail
