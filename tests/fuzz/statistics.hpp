// Counts that the working process keeps where its supervisor sees them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace gradnn::fuzz {

/// Counts by name. Lies in memory that processes share; written by one thread
/// at a time.
template <size_t most>
struct name_counts {
    struct row {
        std::array<char, 56> name;
        uint64_t count;
    };
    std::array<row, most> rows;
    size_t used;

    /// Returns the new count.
    uint64_t add(const std::string &name) {
        const std::string cut = name.substr(0, row {}.name.size() - 1);
        for (size_t index = 0; index < used; ++index)
            if (cut == rows[index].name.data()) return ++rows[index].count;
        if (used == most) return 1;
        cut.copy(rows[used].name.data(), cut.size());
        rows[used].count = 1;
        return rows[used++].count;
    }
};

/// All zeros at first. Atomics are for the supervisor, which reads meanwhile.
struct statistics {
    std::atomic<uint64_t> next; ///< first index that is not done
    std::atomic<uint64_t> current; ///< index under way
    std::atomic<int64_t> started; ///< milliseconds; 0 where none is under way
    std::atomic<bool> stop; ///< set by the supervisor
    std::atomic<bool> finished; ///< nothing is left to do
    std::atomic<bool> no_engine;
    std::atomic<uint64_t> done;
    std::atomic<uint64_t> refused;
    std::atomic<uint64_t> findings;
    name_counts<32> by_subject;
    name_counts<16> by_type;
    name_counts<128> by_kernel;
    name_counts<512> by_finding;
};

} // namespace gradnn::fuzz
