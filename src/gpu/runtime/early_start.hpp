// Whether kernels may be launched by launch_early (launch.hpp).
#pragma once

namespace gradnn::gpu {

/// Whether a device has programmatic dependent launch, and the code that runs
/// there the instructions for it (device/early_start.cuh).
bool can_start_early(int device);

} // namespace gradnn::gpu
