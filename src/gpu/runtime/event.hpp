// Marks in streams, and the times between them.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/runtime/cuda_check.hpp"

namespace gradnn::gpu {

/// An event of the current device, which must be current as well where it is recorded.
class timed_event {
public:
    timed_event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
    timed_event(const timed_event &) = delete;
    timed_event &operator=(const timed_event &) = delete;
    ~timed_event() { ignore(cudaEventDestroy(event_)); }

    void record(cudaStream_t stream) {
        check(cudaEventRecord(event_, stream), "cudaEventRecord");
    }

    /// Waits until the work before this one is done.
    float milliseconds_since(const timed_event &earlier) const {
        check(cudaEventSynchronize(event_), "cudaEventSynchronize");
        float time = 0.0F;
        check(cudaEventElapsedTime(&time, earlier.event_, event_),
                "cudaEventElapsedTime");
        return time;
    }

private:
    cudaEvent_t event_ = nullptr;
};

} // namespace gradnn::gpu
