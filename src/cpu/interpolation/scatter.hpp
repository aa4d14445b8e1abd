// What interpolation.scatter copies where. Plain arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// An axis around the units: which unit of diff_dst each place takes, or none.
struct scatter_axis {
    int64_t size = 1;
    std::vector<int64_t> from; ///< -1: none; empty: place i takes i
    int64_t dst = 1;
};

/// diff_src as units, one right after the other in memory, each of which takes a unit of
/// diff_dst, element by element, or nothing.
struct scatter_job {
    /// Of diff_src that are put together in the first-level cache at a time.
    static constexpr int64_t chunk_bytes = 4096;

    int64_t element_bytes = 4;
    int64_t chunk() const { return chunk_bytes / element_bytes; } ///< elements
    int64_t unit = 1; ///< elements of diff_src
    int64_t unit_inputs = 1; ///< and of diff_dst
    /// Of each element of diff_dst its place in its chunk of a unit.
    std::vector<uint16_t> places;
    std::vector<int64_t> chunk_inputs; ///< where each chunk's begin; their end
    /// The innermost axis around a pattern is cut into parts of so many places; each but
    /// the last is a unit.
    int64_t part = 1;
    std::vector<scatter_axis> axes; ///< around the units, the innermost first
    int64_t units = 1;
    int64_t shares = 1;
    bool stream = false; ///< past the caches
};

/// Nothing where an element of diff_src takes more than one of diff_dst, or not as it
/// is, where a tensor has gaps, or where units would be short or long.
std::optional<scatter_job> find_scatter(const detail::interpolation_problem &);

} // namespace gradnn::cpu
