// What a partition is compared with on its device: the memory limit, and the
// clock that times both.
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
    double milliseconds_of(const std::function<void()> &work);

private:
    struct state;
    std::shared_ptr<state> state_;
};

/// The memory limit of a problem that reads and writes so many bytes: on the
/// CPU a plain stream of all threads over as many (memory_limit.hpp), on a GPU
/// a copy within its memory that moves as many in all. Its buffers rotate as
/// the benchmark's do.
class device_limit {
public:
    device_limit(const engine &e, size_t read_bytes, size_t write_bytes,
            size_t copies);
    /// Milliseconds for copy number `copy`, once.
    double run(size_t copy);

    static size_t memory_need(const engine &e, size_t read_bytes,
            size_t write_bytes, size_t copies);

private:
    struct state;
    std::shared_ptr<state> state_;
};

/// GB/s (read plus written) of a copy that no cache holds, the median of
/// several.
double copy_gb_per_s(const engine &e);

/// Bytes of the largest cache on the way to the device's memory.
int64_t cache_bytes(const engine &e);

} // namespace gradnn::driver
