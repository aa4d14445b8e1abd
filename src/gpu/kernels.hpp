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

template <typename Problem>
using maker = plan_or_refusal(const Problem &, const compile_options &);
using interpolation_maker = maker<interpolation_problem>;
using convolution_maker = maker<convolution_problem>;

// interpolation/, a folder a kernel; columns/ has two
namespace interpolation {
interpolation_maker make_copy;
interpolation_maker make_strided;
namespace bands {
interpolation_maker make;
}
namespace columns {
interpolation_maker make_ncx;
interpolation_maker make_nxc;
} // namespace columns
namespace intervals {
interpolation_maker make;
}
namespace layers {
interpolation_maker make;
}
namespace pixels {
interpolation_maker make;
}
namespace planes {
interpolation_maker make;
}
namespace rows {
interpolation_maker make;
}
namespace whole {
interpolation_maker make;
}
} // namespace interpolation

// convolution/, a folder a kernel (of depthwise/ each family is one, made of its cut
// by depthwise/plan.hpp); implicit_gemm/ has three
namespace col2im {
convolution_maker make;
}
namespace cudnn {
convolution_maker make;
}
namespace direct {
convolution_maker make;
}
namespace few_channels {
convolution_maker make;
}
namespace implicit_gemm {
convolution_maker make_f64;
convolution_maker make_tf32x3;
convolution_maker make_wide_weights;
/// Whether CUTLASS's kernels are in this build.
bool is_built();
} // namespace implicit_gemm
namespace narrow_groups {
convolution_maker make;
}
namespace pointwise {
convolution_maker make;
}
/// Whether the kernel that takes a convolution of data writes its output to a
/// copy, channels last, that it would not need if the caller's tensor were so
/// (convolution/output_layout.cpp).
bool writes_channels_last(const convolution_problem &, const compile_options &);

namespace bias {
maker<bias_problem> make;
}

maker<elementwise_problem> make_elementwise; // elementwise.cu

} // namespace gradnn::gpu
