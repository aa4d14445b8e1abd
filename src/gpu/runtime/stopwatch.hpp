// Times of work on a device, for choices that are made by measuring.
#pragma once

#include "gpu/runtime/event.hpp"
#include "gpu/runtime/pause.hpp"

namespace gradnn::gpu {

/// A stream of its own and two events. The device must be current.
class stopwatch {
public:
    stopwatch() {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
    }
    stopwatch(const stopwatch &) = delete;
    stopwatch &operator=(const stopwatch &) = delete;
    ~stopwatch() { ignore(cudaStreamDestroy(stream_)); }

    cudaStream_t stream() const { return stream_; }

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
    cudaStream_t stream_ = nullptr;
};

} // namespace gradnn::gpu
