// Workspace on the CPU, kept between calls.
#pragma once

#include <cstddef>

namespace gradnn::torch_kernels {

/// A block of workspace, aligned for every kernel; returned when it goes. Large
/// ones come from blocks that the process keeps: new memory costs a page fault
/// for each of its pages, which takes longer than many a gradient.
class workspace {
public:
    workspace() = default;
    explicit workspace(size_t bytes);
    ~workspace();
    workspace(const workspace &) = delete;
    workspace &operator=(const workspace &) = delete;

    /// Null where there is no memory.
    void *get() const { return block_; }

private:
    void *block_ = nullptr;
    size_t size_ = 0; ///< 0: the thread's, which keeps it
};

} // namespace gradnn::torch_kernels
