// What the folders here offer to the list of kernels: a maker each; implicit_gemm/ has
// three.
#pragma once

#include "gpu/runtime/maker.hpp"

namespace gradnn::gpu {

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
namespace few_channels {
convolution_maker make;
}
namespace implicit_gemm {
convolution_maker make_f64;
convolution_maker make_tf32x3;
convolution_maker make_wide_weights;
} // namespace implicit_gemm
namespace narrow_groups {
convolution_maker make;
}
namespace pointwise {
convolution_maker make;
}
namespace sliding {
convolution_maker make;
maker<detail::fused_convolution> make_fused;
} // namespace sliding

} // namespace gradnn::gpu
