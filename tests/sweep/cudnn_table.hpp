// What each of cuDNN's engines did, in memory that processes share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cudnn_trial.hpp"

namespace gradnn::sweep {

/// A string in shared memory, cut to its room.
template <size_t Room>
struct fixed_text {
    char characters[Room];

    void set(const std::string &from) {
        const size_t length = from.copy(characters, Room - 1);
        characters[length] = 0;
    }
    std::string get() const { return characters; }
};

/// All trials of an engine for a direction and types.
struct engine_row {
    fixed_text<96> key; ///< "weights bf16 eng17 taken"
    int64_t trials;
    int64_t failures; ///< could not be run
    int64_t deaths; ///< ended the process or took too long
    int64_t twice; ///< off by over 1024 u * S, as by rounding twice
    int64_t over; ///< off by more than promised
    int64_t over_norm;
    int64_t not_finite;
    int64_t changed;
    int64_t strays;
    double worst_norm;
    double worst; ///< in u * S
    int64_t worst_terms;
    fixed_text<512> worst_text; ///< tag and problem

    void count(const trial_result &result, const detail::promise &of,
            sign signs, int64_t terms, const std::string &text);
    void merge(const engine_row &other);
};

/// The rows of one process. Zeros are an empty one.
struct engine_table {
    std::array<engine_row, 1024> rows;

    /// The row of this key, or a new one. The last row takes all others where
    /// there is no more room.
    engine_row &row(const std::string &key);
};

/// The rows of all tables, sorted, on standard output.
void print_rows(std::span<const engine_table> tables);

} // namespace gradnn::sweep
