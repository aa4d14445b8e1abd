// The CPU's kernels in the order in which they are tried; one source file a kernel
// family.
#pragma once

#include "kernel/kernel.hpp"

namespace gradnn::cpu {

using detail::bias_problem;
using detail::compile_options;
using detail::convolution_problem;
using detail::elementwise_problem;
using detail::interpolation_problem;
using detail::plan_or_refusal;

// interpolation/copy.cpp
plan_or_refusal make_interpolation_copy(
        const interpolation_problem &, const compile_options &);
// interpolation/scatter.cpp
plan_or_refusal make_interpolation_scatter(
        const interpolation_problem &, const compile_options &);
// interpolation/interpolation.cpp
plan_or_refusal make_interpolation_separable(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_strided(
        const interpolation_problem &, const compile_options &);

// convolution/parts/parts.cpp; by the kernels below.
plan_or_refusal make_convolution_parts(
        const convolution_problem &, const compile_options &);
// convolution/onednn/onednn.cpp; refuses everything in a build without oneDNN.
plan_or_refusal make_convolution_onednn(
        const convolution_problem &, const compile_options &);
// convolution/depthwise/depthwise.cpp; groups of one channel, channels contiguous.
plan_or_refusal make_convolution_depthwise(
        const convolution_problem &, const compile_options &);
// convolution/planes/planes.cpp; few channels to a group.
plan_or_refusal make_convolution_planes(
        const convolution_problem &, const compile_options &);
/// What that takes on one thread, as estimated; infinity where it refuses.
double planes_nanoseconds(const convolution_problem &);
// convolution/gemm/; takes everything.
plan_or_refusal make_convolution_gemm(
        const convolution_problem &, const compile_options &);

// bias.cpp
plan_or_refusal make_bias(const bias_problem &, const compile_options &);

// elementwise.cpp
plan_or_refusal make_elementwise(
        const elementwise_problem &, const compile_options &);

/// All of the above (kernels.cpp).
const detail::kernel_lists &kernels();

} // namespace gradnn::cpu
