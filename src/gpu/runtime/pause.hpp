// A stream that waits for the host, for measurements.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace gradnn::gpu {

/// Keeps the stream busy for a time in which the host can submit so many
/// partitions or more (50 us each), so that an event that is recorded next and
/// the work that is timed follow each other without a gap. The device must be
/// current.
void pause(cudaStream_t stream, size_t partitions);

} // namespace gradnn::gpu
