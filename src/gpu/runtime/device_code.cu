#include "base/text.hpp"
#include "gpu/backend.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

namespace {

__global__ void probe_kernel() {}

std::string capability(int number) {
    return detail::text(number / 10, '.', number % 10);
}

device_code ask(int device) {
    const cuda_interop::device_info &info = properties_of(device).info;
    const allocation_guard current(device); // attributes load the kernel
    cudaFuncAttributes found {};
    const cudaError_t result = cudaFuncGetAttributes(&found, probe_kernel);
    if (result == cudaSuccess)
        return {found.ptxVersion,
                detail::text("machine code for compute capability ",
                        capability(found.binaryVersion), ", of PTX for ",
                        capability(found.ptxVersion))};
    if (result != cudaErrorNoKernelImageForDevice
            && result != cudaErrorInvalidDeviceFunction
            && result != cudaErrorUnsupportedPtxVersion)
        check(result, "cudaFuncGetAttributes");
    static_cast<void>(cudaGetLastError());
    return {0,
            detail::text("none: ", info.name, " has compute capability ",
                    info.compute_capability_major, '.',
                    info.compute_capability_minor,
                    ", and this build of gradnn holds ", code_of_library,
                    " (CMAKE_CUDA_ARCHITECTURES); CUDA says: ",
                    cudaGetErrorString(result))};
}

} // namespace

const char *const code_of_library = GRADNN_CUDA_CODE;

const device_code &code_of_device(size_t index) {
    return made_once<ask>(index);
}

bool can_start_early(int device) {
    return code_of_device(static_cast<size_t>(device)).ptx >= 90;
}

} // namespace gradnn::gpu
