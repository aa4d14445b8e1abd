// What a partition is timed with on its device, and what is measured there to
// compare it with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <gradnn/engine.hpp>

namespace gradnn::driver {

/// Runs work on a stream; returns milliseconds until it is done: by the
/// process's clock on the CPU, by CUDA events on a GPU.
class device_clock {
public:
    explicit device_clock(const stream &s);
    /// Of each of so many turns, one right after the other; work is told which.
    double milliseconds_of(
            size_t turns, const std::function<void(size_t)> &work);

private:
    struct state;
    std::shared_ptr<state> state_;
};

/// GB/s (read plus written) of a copy that no cache holds, the median of
/// several.
double copy_gb_per_s(const engine &e);

/// Milliseconds of a kernel that does nothing, on a GPU whose stream is full of
/// them; 0 on the CPU.
double empty_launch_ms(const engine &e);

/// Bytes of the largest cache on the way to the device's memory.
int64_t cache_bytes(const engine &e);

} // namespace gradnn::driver
