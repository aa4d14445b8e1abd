// A stand-in for NVRTC that compiles nothing, at once: its code has every kernel, for the
// stand-in of the CUDA runtime (functions.cpp). GRADNN_NVRTC names it. As a file
// libnvrtc.so.12 it is of that version. With FAKE_NVRTC_FAILS set it fails to compile.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <nvrtc.h>

#include "fake_cuda/fake_code.hpp"

#define GRADNN_SHOWN __attribute__((visibility("default")))

/// Those of devices.cpp that gradnn has kernels for.
constexpr int known_architectures[] = {80, 86, 89, 90, 100, 120};

constexpr char log_of_failure[] = "the stand-in has no room";

extern "C" {

GRADNN_SHOWN nvrtcResult nvrtcVersion(int *major, int *minor) {
    Dl_info own {};
    dladdr(reinterpret_cast<void *>(&nvrtcVersion), &own);
    *major = std::strstr(own.dli_fname, "/libnvrtc.so.12") != nullptr ? 12 : 13;
    *minor = 99;
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
    *count = static_cast<int>(std::size(known_architectures));
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcGetSupportedArchs(int *architectures) {
    std::copy(std::begin(known_architectures), std::end(known_architectures),
            architectures);
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcCreateProgram(nvrtcProgram *program,
        const char * /*source*/, const char * /*name*/, int /*headers*/,
        const char *const * /*texts*/, const char *const * /*names*/) {
    *program = nullptr;
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcCompileProgram(nvrtcProgram /*program*/,
        int /*count*/, const char *const * /*options*/) {
    return std::getenv("FAKE_NVRTC_FAILS") == nullptr
            ? NVRTC_SUCCESS
            : NVRTC_ERROR_OUT_OF_MEMORY;
}
GRADNN_SHOWN nvrtcResult nvrtcGetProgramLogSize(
        nvrtcProgram /*program*/, size_t *bytes) {
    *bytes = sizeof log_of_failure;
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcGetProgramLog(
        nvrtcProgram /*program*/, char *log) {
    std::memcpy(log, log_of_failure, sizeof log_of_failure);
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcGetCUBINSize(
        nvrtcProgram /*program*/, size_t *bytes) {
    *bytes = sizeof gradnn::fake_cuda::fake_code;
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcGetCUBIN(nvrtcProgram /*program*/, char *code) {
    std::memcpy(code, gradnn::fake_cuda::fake_code,
            sizeof gradnn::fake_cuda::fake_code);
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN nvrtcResult nvrtcDestroyProgram(nvrtcProgram * /*program*/) {
    return NVRTC_SUCCESS;
}
GRADNN_SHOWN const char *nvrtcGetErrorString(nvrtcResult result) {
    return result == NVRTC_ERROR_OUT_OF_MEMORY ? "NVRTC_ERROR_OUT_OF_MEMORY"
                                               : "";
}

} // extern "C"
