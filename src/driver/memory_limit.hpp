// The rate at which this machine's memory can be read and written: the limit
// that kernels are compared with.
#pragma once

#include <cstddef>

#include "host_memory.hpp"

namespace gradnn::driver {

/// A plain stream of all threads: reads and writes given numbers of bytes,
/// with streaming (non-temporal) stores, side by side as a kernel would. Its
/// buffers rotate as the benchmark's do, so that caches are as cold.
class memory_stream {
public:
    /// Buffers for `copies` problems. Bytes are rounded up to 64.
    memory_stream(size_t read_bytes, size_t write_bytes, size_t copies);

    /// Streams copy number `copy` once; returns seconds.
    double run(size_t copy);

    static size_t memory_need(
            size_t read_bytes, size_t write_bytes, size_t copies);

private:
    size_t read_lines_;
    size_t write_lines_;
    size_t copies_;
    host_memory source_;
    host_memory target_;
};

/// GB/s of a streaming copy of `bytes` (read plus written), the median of
/// several.
double copy_gb_per_s(size_t bytes);

} // namespace gradnn::driver
