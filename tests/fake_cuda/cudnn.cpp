// A stand-in for cuDNN, which GRADNN_CUDNN names: it has a version, which rules of
// kernels ask for, and no handles, so that whoever would ask it for a plan fails.
#include <cudnn.h>

extern "C" {

__attribute__((visibility("default"))) size_t cudnnGetVersion() {
    return 91400;
}

__attribute__((visibility("default"))) cudnnStatus_t cudnnCreate(
        cudnnHandle_t *) {
    return CUDNN_STATUS_NOT_INITIALIZED;
}

__attribute__((visibility("default"))) const char *cudnnGetErrorString(
        cudnnStatus_t) {
    return "a stand-in for cuDNN (tests/fake_cuda) has no handles";
}

__attribute__((visibility("default"))) void cudnnGetLastErrorString(
        char *message, size_t size) {
    if (size > 0) message[0] = '\0';
}

} // extern "C"
