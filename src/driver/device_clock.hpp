// What a partition is timed with on its device, and what is measured there to
// compare it with.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <gradnn/engine.hpp>

namespace gradnn::driver {

bool on_gpu(const engine &e);

/// By the process's clock.
double milliseconds_since(std::chrono::steady_clock::time_point begin);

/// Of at least one value; the upper one of an even number.
double median(std::vector<double> values);

/// Runs work on a stream; returns milliseconds until it is done: by the
/// process's clock on the CPU, by CUDA events on a GPU.
class device_clock {
public:
    explicit device_clock(const stream &s) : queue_(s) {}
    /// Of each of so many turns, one right after the other; work is told which.
    double milliseconds_of(
            size_t turns, const std::function<void(size_t)> &work);

private:
    stream queue_;
};

/// GB/s (read plus written) of a copy that no cache holds, the median of
/// several.
double copy_gb_per_s(const engine &e);

/// What a kernel that does nothing costs a GPU, in milliseconds.
struct empty_launch {
    double device_ms = 0; ///< on a stream that is full of them
    double host_ms = 0; ///< in the call, on a stream that is empty
};
empty_launch measure_empty_launch(const engine &gpu);

/// Bytes of the largest cache on the way to the device's memory.
int64_t cache_bytes(const engine &e);

} // namespace gradnn::driver
