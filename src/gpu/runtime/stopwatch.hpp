// Times of work on a device, for choices that are made by measuring.
#pragma once

#include <array>

#include <cuda_runtime_api.h>

#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/pause.hpp"

namespace gradnn::gpu {

/// A stream of its own and two events. The device must be current.
class stopwatch {
public:
    stopwatch() {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
        for (cudaEvent_t &event : events_)
            check(cudaEventCreate(&event), "cudaEventCreate");
    }
    stopwatch(const stopwatch &) = delete;
    stopwatch &operator=(const stopwatch &) = delete;
    ~stopwatch() {
        for (cudaEvent_t event : events_)
            if (event != nullptr) ignore(cudaEventDestroy(event));
        ignore(cudaStreamDestroy(stream_));
    }

    cudaStream_t stream() const { return stream_; }

    /// Of one run of `runs`, which do not wait for the host. `work` submits to
    /// the stream. Waits until it is done.
    template <typename Work>
    float milliseconds(int runs, const Work &work) {
        pause(stream_, static_cast<size_t>(runs));
        check(cudaEventRecord(events_[0], stream_), "cudaEventRecord");
        for (int number = 0; number < runs; ++number)
            work();
        check(cudaEventRecord(events_[1], stream_), "cudaEventRecord");
        check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
        float time = 0.0F;
        check(cudaEventElapsedTime(&time, events_[0], events_[1]),
                "cudaEventElapsedTime");
        return time / static_cast<float>(runs);
    }

private:
    cudaStream_t stream_ = nullptr;
    std::array<cudaEvent_t, 2> events_ {};
};

} // namespace gradnn::gpu
