// In place of src/gpu/device/async_copy.cuh: a copy is made when its thread waits for
// it, and not before, or at once in every other block. Addresses are checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <vector>

#include "emulated/simt.hpp"

namespace gradnn::gpu {

struct submitted_copies {
    struct one {
        char *to;
        const char *from;
        size_t bytes;
        size_t zeros; ///< behind them
        void make() const {
            std::memcpy(to, from, bytes);
            std::memset(to + bytes, 0, zeros);
        }
    };
    std::vector<one> open; ///< in no group yet
    std::deque<std::vector<one>> groups;
};

/// Of the thread that runs. Begins anew with each block.
inline submitted_copies &copies_of_thread() {
    static std::vector<submitted_copies> all;
    static uint64_t blocks = 0;
    if (blocks != emulated::block::count) all.clear();
    blocks = emulated::block::count;
    if (all.size() <= emulated::thread_index.x)
        all.resize(emulated::thread_index.x + 1);
    return all[emulated::thread_index.x];
}

/// To shared memory, of what may be read, and zeros.
inline void submit_copy(
        void *shared, const void *global, size_t bytes, size_t zeros = 0) {
    auto *const to = static_cast<char *>(shared);
    const size_t all = bytes + zeros;
    if (to < emulated::shared_memory
            || to + all > emulated::shared_memory + emulated::shared_bytes
            || (to - emulated::shared_memory) % all != 0
            || reinterpret_cast<uintptr_t>(global) % all != 0)
        throw std::out_of_range("copy of " + std::to_string(all) + " bytes to "
                + std::to_string(to - emulated::shared_memory));
    const submitted_copies::one copy {
            to, static_cast<const char *>(global), bytes, zeros};
    if (emulated::block::copies_early)
        copy.make();
    else
        copies_of_thread().open.push_back(copy);
}

/// Of global memory.
inline void expect_in_tensors(const void *global, size_t bytes) {
    const auto *const first = static_cast<const char *>(global);
    const auto holds = [&](const auto &tensor) {
        return first >= tensor.first && first + bytes <= tensor.second;
    };
    if (!emulated::tensors.empty()
            && std::none_of(
                    emulated::tensors.begin(), emulated::tensors.end(), holds))
        throw std::out_of_range("copy from beyond the tensor");
}

template <int bytes>
void copy_async(void *shared, const void *global) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16);
    expect_in_tensors(global, bytes);
    submit_copy(shared, global, bytes);
}

inline void copy_async_up_to_16(void *shared, const void *global, int bytes) {
    const auto copied = static_cast<size_t>(bytes);
    if (copied > 0) expect_in_tensors(global, copied);
    submit_copy(shared, global, copied, 16 - copied);
}

template <int bytes>
void copy_async_or_zero(bool wanted, void *shared, const void *global) {
    static const uint4 zeros {};
    if (wanted)
        copy_async<bytes>(shared, global);
    else
        submit_copy(shared, &zeros, bytes);
}

template <int bytes>
void copy_async_if(bool wanted, void *shared, const void *global) {
    if (wanted) copy_async<bytes>(shared, global);
}

inline void copy_async_past_l1(void *shared, const void *global) {
    copy_async<16>(shared, global);
}

inline void copy_async_past_l1_if(
        bool wanted, void *shared, const void *global) {
    if (wanted) copy_async<16>(shared, global);
}

inline void commit_copies() {
    submitted_copies &mine = copies_of_thread();
    mine.groups.push_back(std::move(mine.open));
    mine.open.clear();
}

template <int last>
void wait_for_copies() {
    submitted_copies &mine = copies_of_thread();
    for (; mine.groups.size() > last; mine.groups.pop_front())
        for (const submitted_copies::one &copy : mine.groups.front())
            copy.make();
}

} // namespace gradnn::gpu
