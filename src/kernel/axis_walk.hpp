// The coordinates of an interpolation axis: what each output reads, computed
// from exact ratios, and where these repeat.
//
// The one place where coordinates become taps, for every kernel of every
// engine. (The reference has its own, so that it can check this one.)
#pragma once

#include <cstdint>
#include <optional>

#include "kernel/problem.hpp"

namespace gradnn::detail {

// A dim has at most 63 bits, so products of two of them fit.
__extension__ typedef __int128 wide_integer;

/// num / den, den > 0.
struct wide_ratio {
    wide_integer num = 0;
    wide_integer den = 1;
};

/// An output reads src[low] * low_weight, and src[low + 1] * high_weight where
/// `two` says so. No weight is 0.
struct output_taps {
    int64_t low = 0;
    bool two = false;
    double low_weight = 1;
    double high_weight = 0;
    int64_t high() const { return low + (two ? 1 : 0); }
};

/// Coordinates are ratios of integers and are floored in integer arithmetic;
/// weights are rounded once, to double. Where axis.arithmetic is not exact,
/// coordinates are rounded as it says. They never descend. A value type; each
/// thread has its own.
class axis_walk {
public:
    axis_walk(interpolation_mode mode, coordinate_mode coordinates,
            const interpolation_axis &axis);

    /// Of `output`, which may be beyond the axis' dst. Fast where the outputs
    /// of calls follow one another.
    output_taps at(int64_t output) {
        if (!linear_) return compute(output);
        if (output != next_) seek(output);
        const int64_t low = low_;
        const int64_t rest = rest_;
        ++next_;
        if (low < last_) { // beyond, nothing changes
            low_ += step_low_;
            rest_ += step_rest_;
            if (rest_ >= den_) {
                rest_ -= den_;
                ++low_;
            }
        }
        if (low < 0) return {};
        if (low >= last_) return {last_};
        if (nearest_ || rest == 0) return {low};
        const auto den = static_cast<double>(den_);
        return {low, true, static_cast<double>(den_ - rest) / den,
                static_cast<double>(rest) / den};
    }

    /// The first output whose high tap is at `input` or beyond it; dst where
    /// there is none.
    int64_t first_at(int64_t input);

    /// Outputs o and o + dst read alike, `src` elements apart, as far as both
    /// are within src.
    struct period {
        int64_t src;
        int64_t dst;
    };
    std::optional<period> repeats() const;
    /// The first output that is not before src's element `input`; of an axis that
    /// repeats.
    int64_t first_within(int64_t input = 0) const;

    /// Where an output lies, which may be outside src: behind the element `low`, by
    /// rest / den (0 to 1) of the way to the next. Not for nearest.
    struct position {
        int64_t low;
        long double rest;
        long double den;
    };
    position position_of(int64_t output) const;

    /// Output o lies at (slope * o + offset) / den. Nearest maps floor that, others
    /// weigh the elements beside it.
    struct line {
        int64_t slope = 0;
        int64_t offset = 0;
        int64_t den = 1;
    };
    /// Nothing where that takes more than 60 bits, or coordinates are rounded.
    std::optional<line> positions() const {
        if (!linear_) return std::nullopt;
        return line {slope_, offset_, den_};
    }

    /// The same coordinates on an axis of another size.
    void resize(int64_t src, int64_t dst) {
        last_ = src - 1;
        dst_ = dst;
        next_ = -1;
    }
    int64_t src() const { return last_ + 1; }
    int64_t dst() const { return dst_; }

private:
    output_taps compute(int64_t output) const;
    void seek(int64_t output);
    void split(double value);
    wide_ratio coordinate(int64_t output) const;
    wide_ratio by_ratio(int64_t output) const;
    wide_ratio by_scale(int64_t output) const;
    /// The coordinate as (slope * output + offset) / den, if it is in few bits.
    void find_line();

    interpolation_axis axis_;
    coordinate_mode coordinates_;
    bool nearest_;
    bool rounds_ = false; ///< a half is added before flooring
    uint64_t mantissa_ = 1; ///< of the ratio or scale
    int exponent_ = 0;
    int64_t last_; ///< of src
    int64_t dst_;

    bool linear_ = false;
    int64_t slope_ = 0;
    int64_t offset_ = 0;
    int64_t den_ = 1;
    int64_t step_low_ = 0;
    int64_t step_rest_ = 0;
    // Of output next_: floor of the coordinate, and what is left of den_.
    int64_t next_ = -1;
    int64_t low_ = 0;
    int64_t rest_ = 0;
};

} // namespace gradnn::detail
