// The GPU's kernels in the order in which they are tried. Seen by the compiler
// (compile.cpp, through backend.hpp) alone; one source file a kernel family.
#pragma once

#include "kernel.hpp"

namespace gradnn::gpu {

using detail::bias_problem;
using detail::compile_options;
using detail::convolution_problem;
using detail::elementwise_problem;
using detail::interpolation_problem;
using detail::plan_or_refusal;

// interpolation/planes/planes.cu, interpolation/bands/bands.cu, interpolation/pixels/pixels.cu,
// interpolation/strips/strips.cu, interpolation/intervals/intervals.cu, interpolation/columns/ncx.cu,
// interpolation/columns/nxc.cu, interpolation/strided.cu; the last takes everything.
plan_or_refusal make_interpolation_planes(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_bands(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_pixels(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_strips(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_intervals(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_ncx(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_nxc(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_strided(
        const interpolation_problem &, const compile_options &);

// convolution/depthwise/depthwise.cpp
plan_or_refusal make_convolution_depthwise(
        const convolution_problem &, const compile_options &);
// convolution/few_channels/few_channels.cpp
plan_or_refusal make_convolution_few_channels(
        const convolution_problem &, const compile_options &);
// convolution/narrow_groups/narrow_groups.cpp
plan_or_refusal make_convolution_narrow_groups(
        const convolution_problem &, const compile_options &);
// convolution/implicit_gemm/tf32x3.cpp, convolution/implicit_gemm/f64.cpp and convolution/implicit_gemm/wide_weights.cpp,
// or convolution/implicit_gemm/absent.cpp
plan_or_refusal make_convolution_tf32x3(
        const convolution_problem &, const compile_options &);
plan_or_refusal make_convolution_f64(
        const convolution_problem &, const compile_options &);
plan_or_refusal make_convolution_wide_weights(
        const convolution_problem &, const compile_options &);
// convolution/cudnn/cudnn.cpp
plan_or_refusal make_convolution_cudnn(
        const convolution_problem &, const compile_options &);
// convolution/direct.cu; takes everything.
plan_or_refusal make_convolution_direct(
        const convolution_problem &, const compile_options &);

/// Whether CUTLASS's kernels are in this build.
bool has_implicit_gemm();
/// Whether the kernel that takes a convolution of data writes its output to a
/// copy, channels last, that it would not need if the caller's tensor were so
/// (convolution/output_layout.cpp).
bool writes_channels_last(const convolution_problem &, const compile_options &);

// bias.cu
plan_or_refusal make_bias(const bias_problem &, const compile_options &);

// elementwise.cu
plan_or_refusal make_elementwise(
        const elementwise_problem &, const compile_options &);

} // namespace gradnn::gpu
