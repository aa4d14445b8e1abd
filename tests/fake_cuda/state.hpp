// What the files of the stand-in share.
#pragma once

#include <cstdint>
#include <string>

#include <driver_types.h>

#include "fake_cuda.hpp"

namespace gradnn::fake_cuda {

/// Keeps an event for take_events.
void note(event happened);

/// Of the GPU that GRADNN_FAKE_GPU names ("L4"; devices.cpp lists them), or of an H200.
const cudaDeviceProp &properties();

/// Its compute capability's two digits.
unsigned architecture();

/// Whether code for another GPU serves it: it is not the H200, and GRADNN_FAKE_NO_PTX is
/// not set.
bool has_ptx();

/// Has the device's clock go on by the time that a kernel takes.
void pass_time_of(const std::string &kernel);

/// Where nothing is; another one in each call.
std::uintptr_t new_address();

/// Not null, nor a stream of CUDA's own.
template <typename Handle>
Handle new_handle() {
    return reinterpret_cast<Handle>(new_address());
}

/// Whether a capture elsewhere forbids the calling thread to load code.
bool is_unsafe_here();

/// Keeps a failure for cudaGetLastError, as the runtime does, and returns it.
cudaError_t keep(cudaError_t result);

} // namespace gradnn::fake_cuda
