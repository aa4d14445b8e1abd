// What the files of the stand-in share.
#pragma once

#include <driver_types.h>

#include "fake_cuda.hpp"

namespace gradnn::fake_cuda {

/// Keeps an event for take_events.
void note(event happened);

const cudaDeviceProp &properties();

/// Keeps a failure for cudaGetLastError, as the runtime does, and returns it.
cudaError_t keep(cudaError_t result);

} // namespace gradnn::fake_cuda
