// What is here for the list of kernels.
#pragma once

#include "gpu/runtime/maker.hpp"

namespace gradnn::gpu {

namespace interpolation {
interpolation_maker make_copy;
interpolation_maker make_strided;
} // namespace interpolation
namespace resample {
interpolation_maker make;
maker<detail::fused_interpolation> make_fused;
} // namespace resample

} // namespace gradnn::gpu
