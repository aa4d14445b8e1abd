#include <mutex>
#include <vector>

#include "base/text.hpp"
#include "gpu/backend.hpp"
#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

namespace gradnn::gpu {

using detail::text;

namespace {

__global__ void probe_kernel() {}

std::string capability(int number) {
    return text(number / 10, '.', number % 10);
}

device_code ask(int device) {
    const device_properties &properties = properties_of(device);
    const int own = 10 * properties.major + properties.minor;
    const allocation_guard current(device); // attributes load the kernel
    cudaFuncAttributes found {};
    const cudaError_t result = cudaFuncGetAttributes(&found, probe_kernel);
    if (result == cudaSuccess)
        return {found.ptxVersion,
                found.binaryVersion == own && found.ptxVersion < own
                        ? "made by the driver of PTX for compute capability "
                                + capability(found.ptxVersion)
                        : "machine code for compute capability "
                                + capability(found.binaryVersion)};
    if (result != cudaErrorNoKernelImageForDevice
            && result != cudaErrorInvalidDeviceFunction
            && result != cudaErrorUnsupportedPtxVersion)
        check(result, "cudaFuncGetAttributes");
    static_cast<void>(cudaGetLastError());
    std::string built_for;
    for (const int each : {__CUDA_ARCH_LIST__}) // for this file as for all
        built_for += (built_for.empty() ? "" : ", ") + capability(each / 10);
    return {0,
            text("none: ", properties.name, " has compute capability ",
                    capability(own), ", and this build of gradnn is for ",
                    built_for, " (CMAKE_CUDA_ARCHITECTURES); CUDA says: ",
                    cudaGetErrorString(result))};
}

} // namespace

device_code code_of_device(size_t index) {
    static std::mutex mutex;
    static std::vector<device_code> known(static_cast<size_t>(device_count()));
    const std::lock_guard lock(mutex);
    device_code &entry = known.at(index);
    if (entry.text.empty()) entry = ask(static_cast<int>(index));
    return entry;
}

bool can_start_early(int device) {
    return properties_of(device).major >= 9
            && code_of_device(static_cast<size_t>(device)).ptx >= 90;
}

} // namespace gradnn::gpu
