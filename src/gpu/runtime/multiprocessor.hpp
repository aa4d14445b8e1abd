// What a device has for the blocks that its multiprocessors (SM) hold: the only place for
// these figures; and what their memories take for the addresses of a warp.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gradnn::gpu {

/// Shared memory that a block has where its kernel was not allowed more
/// (allow_shared_bytes). The same on every device.
constexpr int64_t default_block_shared_bytes = 48 << 10;

/// What kernels' cuts are made for.
struct gpu_facts {
    int multiprocessors;
    int block_shared_bytes; ///< that a block may ask for
    int shared_bytes, registers, threads; ///< of a multiprocessor
};

/// Of a warp, addresses.
using warp_addresses = std::array<int64_t, 32>;

inline warp_addresses shifted(warp_addresses addresses, int64_t bytes) {
    for (int64_t &each : addresses)
        each += bytes;
    return addresses;
}

/// Calls visit(number, lanes) for each block of so many bytes, a power of two, that addresses lie
/// in, and how many of them.
template <typename Visit>
void each_block(
        std::span<const int64_t> addresses, int bytes, const Visit &visit) {
    warp_addresses blocks;
    const int shift = std::countr_zero(static_cast<unsigned>(bytes));
    const auto end = std::ranges::transform(
            addresses, blocks.begin(), [&](int64_t each) {
                return each >> shift;
            }).out;
    // They mostly ascend as they are.
    if (!std::is_sorted(blocks.begin(), end)) std::sort(blocks.begin(), end);
    for (auto at = blocks.begin(), next = at; at != end; at = next) {
        while (next != end && *next == *at)
            ++next;
        visit(*at, next - at);
    }
}

/// What 32 lanes take to load `bytes` each from these addresses: lines of the first cache, or
/// turns of the 32 banks of shared memory.
inline double wavefronts_of(
        const warp_addresses &addresses, int bytes, bool shared) {
    double count = 0;
    const size_t at_once = bytes > 4 ? 128 / static_cast<size_t>(bytes) : 32;
    const int line = shared ? std::max(4, bytes) : 128;
    for (size_t first = 0; first < addresses.size(); first += at_once) {
        std::array<int, 32> of_bank {}; // or all lines
        each_block({&addresses[first], at_once}, line, [&](int64_t each, auto) {
            for (int64_t word = 0; word < (shared ? line / 4 : 1); ++word)
                ++of_bank[static_cast<size_t>(
                        shared ? (each * line / 4 + word) % 32 : 0)];
        });
        count += *std::ranges::max_element(of_bank);
    }
    return count;
}

/// Sectors of 32 bytes that 32 lanes store to, where those that are written in part count once
/// and whole ones half, as the mean of four rows so many bytes apart.
inline double sectors_of(
        const warp_addresses &addresses, int bytes, int64_t row) {
    constexpr int sector = 32;
    const int rows = row % sector == 0 ? 1 : 4; // the same, or others
    double count = 0;
    // Stores lie at multiples of their bytes.
    for (int number = 0; number < rows; ++number)
        each_block(shifted(addresses, number * row), sector,
                [&](int64_t, auto stored) {
                    count += stored * bytes < sector ? 1 : 0.5;
                });
    return count / rows;
}

} // namespace gradnn::gpu
