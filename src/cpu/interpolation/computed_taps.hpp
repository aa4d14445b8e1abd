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

/// Output o lies at (slope * o + offset) / den. Input i takes it by their distance in
/// units of 1 / den (nearest: where i is the floor). The first and the last input
/// also take what lies beyond them, as a filter has it there.
struct computed_taps {
    detail::axis_walk::line line;
    enum class shape { nearest, linear, cubic };
    shape filter = shape::linear;
    int64_t unit = 1; ///< where the filter is at 1
    double cubic_coeff_a = 0;
    bool exclude_outside = false;
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

    /// Distances of outputs that an input takes: [least(), end_distance()).
    int64_t least() const {
        return filter == shape::nearest ? 0 : 1 - end_distance();
    }
    int64_t end_distance() const {
        return filter == shape::cubic ? 2 * unit : unit;
    }
    /// Whether outputs are farther apart than inputs and the filter is as wide: an
    /// output's weights are its filter's by their sum.
    bool is_widened() const { return unit != line.den; }

    /// Input i takes outputs [begin(i), end(i)).
    int64_t begin(int64_t i) const {
        return i == 0 ? 0 : std::clamp<int64_t>(first_of(i), 0, dst);
    }
    int64_t end(int64_t i) const {
        return i + 1 == src
                ? dst
                : std::clamp<int64_t>(first_at(i, end_distance()), 0, dst);
    }
    double weight(int64_t i, int64_t output) const;

    /// What an output's filter sums up to, of which the inner outputs leave no input out.
    double sum_of(int64_t output) const;
    int64_t inner_begin() const { return first_at(0, end_distance() - 1); }
    int64_t inner_end() const { return first_at(src - 1, 1 - end_distance()); }
    /// How far an output is behind the last input before it.
    int64_t rest_of(int64_t output) const;
    /// Inputs on either side of it that it touches at most.
    int64_t inputs_beside() const {
        return (end_distance() + line.den - 1) / line.den;
    }

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
    int64_t first_at(int64_t input, int64_t units) const;
    /// The first that i would take of an endless axis.
    int64_t first_of(int64_t i) const { return first_at(i, least()); }
    detail::wide_integer distance(int64_t i, int64_t output) const {
        return detail::wide_integer {line.slope} * output + line.offset
                - detail::wide_integer {i} * line.den;
    }
    double filtered(detail::wide_integer distance) const;
    double before_division(int64_t i, int64_t output) const;
};

/// Or nothing where a table is small, or is needed.
std::optional<computed_taps> find_computed_taps(detail::interpolation_mode mode,
        detail::coordinate_mode coordinates,
        const detail::interpolation_axis &axis, detail::data_type type,
        int64_t row_channels);

} // namespace gradnn::cpu
