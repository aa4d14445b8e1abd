// Ranges that NVIDIA's profilers show. Builds that find no NVTX have none.
#pragma once

namespace gradnn::detail {

/// Whether a profiler listens.
bool profiler_listens();

/// A range of the calling thread while it lives. Ranges nest; the profiler copies
/// the name. Nothing where the name is null.
class profiler_range {
public:
    explicit profiler_range(const char *name);
    profiler_range(const profiler_range &) = delete;
    profiler_range &operator=(const profiler_range &) = delete;
    ~profiler_range();

private:
    const bool open_;
};

} // namespace gradnn::detail
