// Cycles of a multiprocessor by the cuts that kernels choose; 0 where a kernel does not
// take the problem. Host arithmetic.
#pragma once

#include "gpu/runtime/device.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::interpolation {

namespace layers {
double estimated_cycles(const detail::interpolation_problem &problem,
        const device_properties &device);
} // namespace layers

} // namespace gradnn::gpu::interpolation
