// In place of src/gpu/device/async_copy.cuh: a copy is made when its thread waits for
// it, and not before, or at once in every other block. Addresses are checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
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

using copy_barrier = uint64_t;
inline copy_barrier *shared_barrier() {
    static copy_barrier barrier;
    return &barrier;
}

struct barrier_state {
    struct copy {
        void *to;
        const void *from;
        uint32_t bytes;
    };
    int arrivals = 0; ///< of a phase; 0: not begun
    int arrived = 0; ///< of the phase that is under way
    int64_t missing = 0; ///< bytes of it that no copy has brought
    uint32_t phases = 0; ///< that are complete
    std::vector<copy> later; ///< that are made when a thread has waited

    void complete_if_all() {
        if (arrived < arrivals || missing != 0) return;
        arrived = 0;
        ++phases;
    }
};

/// Of the block that runs.
inline barrier_state &state_of(const copy_barrier *barrier) {
    static std::map<const copy_barrier *, barrier_state> all;
    static uint64_t blocks = 0;
    if (blocks != emulated::block::count) all.clear();
    blocks = emulated::block::count;
    return all[barrier];
}

inline void begin_barrier(copy_barrier *barrier) {
    state_of(barrier) = {.arrivals = 1};
}

inline void expect_copies(copy_barrier *barrier, uint32_t bytes) {
    barrier_state &state = state_of(barrier);
    if (state.arrived == state.arrivals)
        throw std::logic_error("copies expected on a barrier that is not there"
                               " or expects others");
    ++state.arrived;
    state.missing += bytes;
    state.complete_if_all();
}

inline void copy_bulk(void *shared, const void *global, uint32_t bytes,
        copy_barrier *barrier) {
    const auto multiple = [](const void *address) {
        return reinterpret_cast<uintptr_t>(address) % 16 == 0;
    };
    if (!multiple(shared) || !multiple(global) || bytes % 16 != 0)
        throw std::out_of_range("bulk copy of " + std::to_string(bytes)
                + " bytes between multiples of 16");
    expect_in_tensors(global, bytes);
    barrier_state &state = state_of(barrier);
    if (emulated::block::copies_early)
        std::memcpy(shared, global, bytes);
    else
        state.later.push_back({shared, global, bytes});
    state.missing -= bytes;
    state.complete_if_all();
}

inline void wait_for_copies(copy_barrier *barrier, uint32_t parity) {
    // A thread ahead of the one that copies waits; one that waits for good has
    // been given fewer bytes than were expected.
    for (int turns = 0; state_of(barrier).phases % 2 == parity; ++turns) {
        if (turns == 100000)
            throw std::logic_error("a barrier that is never complete: "
                    + std::to_string(state_of(barrier).missing)
                    + " bytes are missing");
        emulated::block::yield();
    }
    barrier_state &state = state_of(barrier);
    for (const auto &[to, from, bytes] : state.later)
        std::memcpy(to, from, bytes);
    state.later.clear();
}

} // namespace gradnn::gpu
