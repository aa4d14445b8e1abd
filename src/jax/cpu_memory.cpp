#include "jax/cpu_memory.hpp"

#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace gradnn::jax {

namespace {

struct block {
    void *data;
    size_t bytes;
};

constexpr size_t most_kept_bytes = size_t {64} << 20;
constexpr size_t most_kept_blocks = 4;

// Never destroyed: calls may still run when the process ends.
std::mutex &mutex = *new std::mutex;
std::vector<block> &kept = *new std::vector<block>;

} // namespace

cpu_workspace::cpu_workspace(size_t bytes) {
    if (bytes == 0) return;
    {
        const std::lock_guard lock(mutex);
        for (block &each : kept)
            if (each.bytes >= bytes) {
                data_ = each.data;
                bytes_ = each.bytes;
                each = kept.back();
                kept.pop_back();
                return;
            }
    }
    bytes_ = (bytes + 63) / 64 * 64;
    data_ = std::aligned_alloc(64, bytes_);
    if (!data_) throw std::bad_alloc();
}

cpu_workspace::~cpu_workspace() {
    block unwanted {data_, bytes_};
    if (data_ && bytes_ <= most_kept_bytes) {
        const std::lock_guard lock(mutex);
        if (kept.size() < most_kept_blocks) {
            kept.push_back(unwanted);
            return;
        }
        // The smallest goes: the large ones serve every call.
        for (block &each : kept)
            if (each.bytes < unwanted.bytes) std::swap(each, unwanted);
    }
    std::free(unwanted.data);
}

} // namespace gradnn::jax
