// Marks in streams and the times between them, for measurements.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include "gpu/runtime/cuda_check.hpp"
#include "gpu/runtime/device.hpp"

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

/// Keeps the stream busy for a time in which the host can submit so many
/// partitions or more (50 us each), so that an event that is recorded next and
/// the work that is timed follow each other without a gap. The device must be
/// current.
void pause(cudaStream_t stream, size_t partitions);

/// A stream of its own and two events. The device must be current.
class stopwatch {
public:
    ~stopwatch() { ignore(cudaStreamDestroy(stream_)); }

    cudaStream_t stream() const { return stream_; }

    void fill_with_zeros(const device_buffer &buffer) const {
        check(cudaMemsetAsync(buffer.data(), 0, buffer.size_bytes(), stream_),
                "cudaMemsetAsync");
    }

    /// Of one run of `runs`, which do not wait for the host. `work` submits to
    /// the stream. Waits until it is done.
    template <typename Work>
    float milliseconds(int runs, const Work &work) {
        pause(stream_, static_cast<size_t>(runs));
        begin_.record(stream_);
        for (int number = 0; number < runs; ++number)
            work();
        end_.record(stream_);
        return end_.milliseconds_since(begin_) / static_cast<float>(runs);
    }

private:
    timed_event begin_;
    timed_event end_;
    const cudaStream_t stream_ = new_stream();
};

} // namespace gradnn::gpu
