// Workspace of CPU calls.
#pragma once

#include <cstddef>

namespace gradnn::jax {

/// Memory at a multiple of 64 while it lives. Blocks of up to 64 MiB are kept
/// for later calls, a few at a time: fresh pages cost more than many a
/// gradient.
class cpu_workspace {
public:
    explicit cpu_workspace(size_t bytes); ///< throws std::bad_alloc
    ~cpu_workspace();
    cpu_workspace(const cpu_workspace &) = delete;
    cpu_workspace &operator=(const cpu_workspace &) = delete;

    void *get() const { return data_; }

private:
    void *data_ = nullptr;
    size_t bytes_ = 0;
};

} // namespace gradnn::jax
