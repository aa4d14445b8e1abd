// What kernel families offer to the GPU's list (kernels.cpp): a maker each.
#pragma once

#include "kernel.hpp"

namespace gradnn::gpu {

using detail::bias_problem;
using detail::compile_options;
using detail::convolution_problem;
using detail::elementwise_problem;
using detail::interpolation_problem;
using detail::plan_or_refusal;

// interpolation/, a folder or file a kernel
plan_or_refusal make_interpolation_copy(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_planes(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_bands(
        const interpolation_problem &, const compile_options &);
namespace layers {
plan_or_refusal make(const interpolation_problem &, const compile_options &);
}
plan_or_refusal make_interpolation_ncx(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_pixels(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_strips(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_intervals(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_nxc(
        const interpolation_problem &, const compile_options &);
plan_or_refusal make_interpolation_strided(
        const interpolation_problem &, const compile_options &);

// convolution/depthwise/, a folder a kernel; tiles and blocks in any/
namespace depthwise {
namespace diagonals {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace lines {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace matrices {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace planes {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace rows_ncx {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace rows_nxc {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace walk {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace volume {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace any {
plan_or_refusal make_tiles(
        const convolution_problem &, const compile_options &);
plan_or_refusal make_blocks(
        const convolution_problem &, const compile_options &);
} // namespace any
} // namespace depthwise

// convolution/, a folder a kernel
namespace few_channels {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace narrow_groups {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace cudnn {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
namespace implicit_gemm {
plan_or_refusal make_tf32x3(
        const convolution_problem &, const compile_options &);
plan_or_refusal make_f64(const convolution_problem &, const compile_options &);
plan_or_refusal make_wide_weights(
        const convolution_problem &, const compile_options &);
/// Whether CUTLASS's kernels are in this build.
bool is_built();
} // namespace implicit_gemm
namespace direct {
plan_or_refusal make(const convolution_problem &, const compile_options &);
}
/// Whether the kernel that takes a convolution of data writes its output to a
/// copy, channels last, that it would not need if the caller's tensor were so
/// (convolution/output_layout.cpp).
bool writes_channels_last(const convolution_problem &, const compile_options &);

// bias/
namespace bias {
plan_or_refusal make(const bias_problem &, const compile_options &);
}

// elementwise.cu
plan_or_refusal make_elementwise(
        const elementwise_problem &, const compile_options &);

} // namespace gradnn::gpu
