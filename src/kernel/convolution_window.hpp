// The positions of a convolution's windows: attributes that cannot matter are
// brought to small values, and how far the rest reaches is measured.
#pragma once

#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::detail {

/// Replaces strides, dilations and pads_begin by the smallest values that give
/// the same convolution: the stride of an axis with one position, the dilation
/// of a window of one point, and steps that leave src at once. Kernels may then
/// be fast where the caller's values are absurd, and see no number that they
/// cannot compute with but where it matters. Returns false where no point of a
/// window meets src along some axis: every output is a sum over nothing.
///
/// The caller has checked that window positions are below 2^61
/// (shapes_convolution.cpp, check_reach).
bool simplify_windows(convolution_problem &problem);

/// A bound of the magnitudes of all positions along a spatial axis, with the
/// sizes, the stride, the dilation and the pad of that axis.
int64_t window_reach(const convolution_problem &problem, size_t axis);

/// Whether all dims, and window_reach of all axes, are below `limit`: what
/// kernels that compute in 32 bits ask.
bool windows_fit(const convolution_problem &problem, int64_t limit);

} // namespace gradnn::detail
