// What the GPU's lists (kernels.cpp) are made of: the makers of all kernels.
#pragma once

#include "gpu/convolution/makers.hpp"
#include "gpu/interpolation/makers.hpp"
#include "gpu/runtime/maker.hpp"

namespace gradnn::gpu {

maker<elementwise_problem> make_elementwise; // elementwise.cu
namespace bias {
maker<bias_problem> make;
}

/// Whether the kernel that takes a convolution of data writes its output to a
/// copy, channels last, that it would not need if the caller's tensor were so
/// (output_layout.cpp).
bool writes_channels_last(const convolution_problem &, const compile_options &);

const detail::kernel_lists &kernels();

} // namespace gradnn::gpu
