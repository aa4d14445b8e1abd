// In place of src/gpu/jit/instructions.cuh: the same in C++. Bulk copies are made when
// they are submitted, or in every other block when they are waited for; their addresses
// are checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulated/simt.hpp"

// One block runs at a time, so that what its threads share may be static.
#undef __shared__
#define __shared__ static

#define __noinline__

inline float __double2float_rz(double value) {
    const auto nearest = static_cast<float>(value);
    return std::abs(static_cast<double>(nearest)) > std::abs(value)
            ? std::nextafter(nearest, 0.0F)
            : nearest;
}
inline unsigned __float_as_uint(float value) {
    unsigned bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

namespace gradnn::gpu::jit {

inline float low_f16(uint32_t pair) {
    return __half2float(half_of_bits(static_cast<unsigned short>(pair)));
}
inline float high_f16(uint32_t pair) {
    return low_f16(pair >> 16);
}
template <typename Half>
uint32_t pair_of(Half low, Half high) {
    uint16_t bits[2];
    std::memcpy(bits, static_cast<const void *>(&low), 2);
    std::memcpy(bits + 1, static_cast<const void *>(&high), 2);
    return uint32_t {bits[1]} << 16 | bits[0];
}
inline uint32_t pair_of_f16(float low, float high) {
    return pair_of(__float2half_rn(low), __float2half_rn(high));
}
inline uint32_t pair_of_bf16(float low, float high) {
    return pair_of(__float2bfloat16_rn(low), __float2bfloat16_rn(high));
}

inline void wait_for_earlier_work() {}
inline char *dynamic_shared() {
    return emulated::shared_memory;
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
    const auto *const from = static_cast<const char *>(global);
    if (!multiple(shared) || !multiple(global) || bytes % 16 != 0)
        throw std::out_of_range("bulk copy of " + std::to_string(bytes)
                + " bytes between multiples of 16");
    const auto holds = [&](const auto &tensor) {
        return from >= tensor.first && from + bytes <= tensor.second;
    };
    if (!emulated::tensors.empty()
            && std::none_of(
                    emulated::tensors.begin(), emulated::tensors.end(), holds))
        throw std::out_of_range("bulk copy from beyond the tensor");
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

} // namespace gradnn::gpu::jit
