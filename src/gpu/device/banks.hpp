// Bank conflicts of shared memory, counted on the host.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gradnn::gpu {

/// Turns that shared memory takes for an access of `bytes` (a power of two up to 16)
/// by each of some neighbouring threads, at byte address(thread), or none where that
/// is negative: as many threads at a time as want 128 bytes, of which those that want
/// other words of the same bank come one after the other.
template <typename Address>
int shared_turns(int threads, int64_t bytes, const Address &address) {
    constexpr int banks = 32;
    const int64_t words = std::max<int64_t>(bytes, 4) / 4;
    const auto together = static_cast<int>(banks / words);
    int turns = 0;
    for (int begin = 0; begin < threads; begin += together) {
        int64_t known[banks][banks];
        int counts[banks] = {};
        int most = 0;
        for (int i = begin; i < std::min(begin + together, threads); ++i) {
            const int64_t at = address(i);
            for (int64_t part = 0; part < words && at >= 0; ++part) {
                const int64_t word = at / 4 + part;
                int64_t *const of_bank = known[word % banks];
                int &count = counts[word % banks];
                if (std::find(of_bank, of_bank + count, word)
                        != of_bank + count)
                    continue;
                of_bank[count++] = word;
                most = std::max(most, count);
            }
        }
        turns += most;
    }
    return turns;
}

} // namespace gradnn::gpu
