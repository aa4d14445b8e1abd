// What the GPU's lists (kernels.cpp) are made of: the functions that make kernels' plans.
#pragma once

#include <string>

#include "kernel/fused_problem.hpp"
#include "kernel/kernel.hpp"

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

maker<elementwise_problem> make_elementwise; // elementwise.cu
namespace bias {
maker<detail::fused_bias> make;
}

namespace resample {
interpolation_maker make_copy;
maker<detail::fused_interpolation> make_fused;
interpolation_maker make_strided;
} // namespace resample

namespace col2im {
convolution_maker make;
}
namespace cudnn {
convolution_maker make;
maker<detail::fused_convolution> make_fused;
} // namespace cudnn
namespace depthwise {
convolution_maker make;
}
namespace direct {
convolution_maker make;
}
namespace implicit_gemm {
maker<detail::fused_convolution> make_f64;
maker<detail::fused_convolution> make_tf32x3;
convolution_maker make_wide_weights;
} // namespace implicit_gemm
namespace pointwise {
convolution_maker make;
}
namespace sliding {
maker<detail::fused_convolution> make_fused;
}

/// Where a kernel can do a problem and another one of the list was measured to be faster:
/// all such knowledge of the GPU (measured_convolution.cpp, measured_estimates.cpp). The
/// `yields` of rows (kernel.hpp): the reason, or an empty string.
using rule = std::string(const convolution_problem &, const compile_options &);
rule sliding_yields;
rule col2im_yields;
rule pointwise_yields;
rule f64_yields;
rule wide_weights_yields;
rule cudnn_yields;
rule direct_yields;

inline std::string reason_if(bool yields, const char *reason) {
    return yields ? reason : std::string();
}

/// Whether the kernel that takes a convolution of data writes its output to a
/// copy, channels last, that it would not need if the caller's tensor were so
/// (output_layout.cpp).
bool writes_channels_last(const convolution_problem &, const compile_options &);

const detail::kernel_lists &kernels();

} // namespace gradnn::gpu
