#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

__global__ void probe_kernel() {}

/// For which the code was generated that runs on the current device: 90 for
/// compute capability 9.0. All kernels are compiled for the same ones.
int code_architecture() {
    cudaFuncAttributes attributes {};
    check(cudaFuncGetAttributes(&attributes, probe_kernel),
            "cudaFuncGetAttributes");
    return attributes.ptxVersion;
}

} // namespace

bool can_start_early(int device) {
    if (properties_of(device).major < 9) return false;
    const allocation_guard current(device); // attributes load the kernel
    return code_architecture() >= 90;
}

} // namespace gradnn::gpu
