// What this folder offers to the list of kernels.
#pragma once

#include "gpu/runtime/maker.hpp"

namespace gradnn::gpu::bias {

maker<bias_problem> make;

} // namespace gradnn::gpu::bias
