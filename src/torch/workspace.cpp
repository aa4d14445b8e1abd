#include "torch/workspace.hpp"

#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <new>

#include "torch/gradnn_torch.h"

namespace gradnn::torch_kernels {

namespace {

struct deleter {
    void operator()(void *block) const { std::free(block); }
};
using memory = std::unique_ptr<void, deleter>;

memory allocate(size_t bytes) {
    return memory(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
}

/// A thread's block for small sizes, which takes no lock.
struct thread_block {
    static constexpr size_t limit = 1 << 20; ///< bytes

    memory block;
    size_t size = 0;

    void *get(size_t bytes) {
        if (bytes > size) {
            block = allocate(bytes * 2); // few steps up to the limit
            size = block ? bytes * 2 : 0;
        }
        return block.get();
    }
};
thread_local thread_block small;

/// Blocks that no call uses.
class kept_blocks {
public:
    /// Bytes; what is more goes, the oldest first.
    static constexpr size_t limit = 256 << 20;

    struct entry {
        memory block;
        size_t size = 0;
    };

    /// The smallest that has these bytes; an empty one where none has.
    entry take(size_t bytes) {
        const std::lock_guard lock(mutex_);
        auto best = blocks_.end();
        for (auto each = blocks_.begin(); each != blocks_.end(); ++each)
            if (each->size >= bytes
                    && (best == blocks_.end() || each->size < best->size))
                best = each;
        if (best == blocks_.end()) return {};
        entry found = std::move(*best);
        blocks_.erase(best);
        size_ -= found.size;
        return found;
    }

    void give(entry returned) {
        if (returned.size > limit) return;
        std::deque<entry> dropped; // freed without the lock
        const std::lock_guard lock(mutex_);
        blocks_.push_back(std::move(returned));
        size_ += blocks_.back().size;
        while (size_ > limit) {
            size_ -= blocks_.front().size;
            dropped.push_back(std::move(blocks_.front()));
            blocks_.pop_front();
        }
    }

    void release() {
        std::deque<entry> dropped;
        const std::lock_guard lock(mutex_);
        dropped.swap(blocks_);
        size_ = 0;
    }

    size_t size() {
        const std::lock_guard lock(mutex_);
        return size_;
    }

private:
    std::mutex mutex_;
    std::deque<entry> blocks_;
    size_t size_ = 0;
};

/// Never destroyed, since threads may outlive main.
kept_blocks &kept() {
    static auto *const made = new kept_blocks;
    return *made;
}

} // namespace

workspace::workspace(size_t bytes) {
    if (bytes == 0) return;
    if (bytes <= thread_block::limit) {
        block_ = small.get(bytes);
        return;
    }
    kept_blocks::entry found = kept().take(bytes);
    if (!found.block) found = {allocate(bytes), bytes};
    size_ = found.block ? found.size : 0;
    block_ = found.block.release();
}

workspace::~workspace() {
    if (size_ == 0) return;
    try {
        kept().give({memory(block_), size_});
    } catch (const std::bad_alloc &) {
        // It was freed.
    }
}

} // namespace gradnn::torch_kernels

using namespace gradnn::torch_kernels;

void *gradnn_torch_take_workspace(size_t bytes) {
    return new (std::nothrow) workspace(bytes);
}

void *gradnn_torch_workspace_data(const void *taken) {
    return taken ? static_cast<const workspace *>(taken)->get() : nullptr;
}

void gradnn_torch_return_workspace(void *taken) {
    delete static_cast<workspace *>(taken);
}

size_t gradnn_torch_kept_workspace(void) {
    return kept().size();
}

void gradnn_torch_release_workspace(void) {
    kept().release();
}
