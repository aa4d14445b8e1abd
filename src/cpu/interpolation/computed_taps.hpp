// The taps along an axis that is long and repeats nothing, of which no table is
// kept: places and weights are computed as they are taken (walk_taps.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kernel/axis_walk.hpp"
#include "kernel/problem.hpp"

namespace gradnn::cpu {

/// Output o lies at (slope * o + offset) / den. Input i takes it with weight 1 less
/// their distance (nearest: 1, where i is the floor). The first and the last input
/// also take what lies beyond them, as it is.
struct computed_taps {
    detail::axis_walk::line line;
    bool nearest = false;
    int64_t src = 1;
    int64_t dst = 1;
    int64_t max_count = 1; ///< no input takes more
    int64_t channels = 1; ///< that lie within an input
    /// Whether places are in 31 bits, and distances in those of a float's integers.
    bool narrow = false;
    // From a vector's inputs to the next one's the first output moves on by `step`,
    // and nears its input by step_rest / den, or once more than that.
    int64_t step = 0;
    int64_t step_rest = 0;
    /// Of `line_steps`, so many outputs ahead.
    static constexpr size_t most_steps = 8;
    std::array<int64_t, most_steps> line_steps {}; ///< units of 1 / den
    /// Vectors of a line that hold all taps of a vector of elements: 1, 2 or 4, or 0
    /// where they are more, or have many channels.
    int64_t tables = 0;
    static constexpr int64_t most_channels = 8;
    static constexpr int64_t most_taps = 32; ///< of several channels in tables

    /// Input i takes outputs [begin(i), end(i)).
    int64_t begin(int64_t i) const {
        return i == 0 ? 0 : std::clamp<int64_t>(first_of(i), 0, dst);
    }
    int64_t end(int64_t i) const {
        return i + 1 == src ? dst
                            : std::clamp<int64_t>(first_at(i + 1), 0, dst);
    }
    double weight(int64_t i, int64_t output) const;

    /// From an input to the next the first output moves on by `outputs`, and nears
    /// its input by rest / den, or once more than that.
    struct advance {
        int64_t outputs;
        int64_t rest;
    };
    advance to_next() const {
        return {line.den / line.slope, line.den % line.slope};
    }

    /// For inputs from i on, the first output that each would take of an endless
    /// axis, counted from `from` on, and its distance in units of 1 / den.
    void start(int64_t i, int64_t from, std::span<int64_t> firsts,
            std::span<int64_t> distances) const;

private:
    /// The first output that is `units` of 1 / den behind an input, or more.
    int64_t first_at(int64_t input, int64_t units = 0) const;
    /// The first that i would take of an endless axis.
    int64_t first_of(int64_t i) const {
        return nearest ? first_at(i) : first_at(i - 1, 1);
    }
};

/// Or nothing where a table is small, or is needed.
std::optional<computed_taps> find_computed_taps(detail::interpolation_mode mode,
        detail::coordinate_mode coordinates,
        const detail::interpolation_axis &axis, detail::data_type type,
        int64_t row_channels);

} // namespace gradnn::cpu
