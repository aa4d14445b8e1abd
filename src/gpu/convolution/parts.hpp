// A convolution as several smaller ones, one after the other: for kernels that take
// only one group, or only gradients of src without strides. Plain host arithmetic,
// except for the plan.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "kernel/convolution_slices.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu {

/// Of slices, or of what is in between.
struct convolution_parts : detail::convolution_slices {
    std::string refusal; ///< why there are none; else empty
};

/// The `groups`, one by one; and of gradients of src the positions that a stride meets with
/// the same taps, along these axes. Just the whole where there is nothing to take apart.
/// Refused where there would be more than `most`.
///
/// Along an axis with stride s and dilation d, x + pad = y * s + k * d. With g =
/// gcd(s, d), taps k0, k0 + s / g, ... meet the same positions of src, which are s
/// apart: v + pad' = y + j * (d / g), a gradient without strides. Positions that
/// another remainder leaves have no taps.
convolution_parts parts_of(const detail::convolution_problem &problem,
        bool groups, const std::array<bool, 3> &axes, size_t most);

/// A plan of the parts, on one workspace; the parts' plans are `make`'s, which of weights
/// that are sums are partial ones, in f32 or f64. Refused where one of them is.
detail::plan_or_refusal make_of_parts(const detail::convolution_problem &whole,
        const convolution_parts &parts,
        const std::function<detail::plan_or_refusal(
                const detail::convolution_problem &part)> &make);

} // namespace gradnn::gpu
