#include "kernel/padded_taps.hpp"

#include <algorithm>
#include <optional>

#include "kernel/axis_map.hpp"
#include "kernel/axis_walk.hpp"

namespace gradnn::detail {

namespace {

/// The inputs of an axis one after the other, by the first output that is at each
/// or behind it: without a division for any.
class input_walk {
public:
    /// Nothing where numbers are not exact in double, or coordinates are rounded.
    static std::optional<input_walk> of(interpolation_mode mode,
            coordinate_mode coordinates, const interpolation_axis &axis,
            int64_t taps) {
        const axis_walk walk(mode, coordinates, axis);
        const auto line = walk.positions();
        constexpr wide_integer most = wide_integer {1} << 52;
        if (!line || line->slope == 0 || line->den >= most / 2
                || wide_integer {line->slope} * (taps + 2) + 2 * line->den
                        >= most)
            return std::nullopt;
        return input_walk(
                *line, mode == interpolation_mode::nearest, axis.src, axis.dst);
    }

    int64_t input() const { return input_; }
    bool is_last() const { return input_ + 1 == src_; }
    /// The input's outputs are [begin(), end()).
    int64_t begin() const {
        return input_ == 0 ? 0
                           : within(nearest_ ? at_ : before_ + (past_ == 0));
    }
    int64_t end() const { return is_last() ? dst_ : within(after_); }
    /// Whether they are as those of an endless axis.
    bool is_inner() const {
        return input_ > 0 && !is_last() && before_ >= 0 && after_ < dst_;
    }
    /// How far the first output of an inner input is behind the input before it,
    /// in units of 1 / den.
    int64_t past_input_before() const {
        return past_ == 0 ? line_.slope : past_;
    }
    double weight(int64_t output) const {
        if (nearest_) return 1;
        const wide_integer from = wide_integer {line_.slope} * output
                + line_.offset - wide_integer {line_.den} * input_;
        // Beyond an end a weight is 1.
        if (from == 0 || (from < 0 ? input_ == 0 : is_last())) return 1;
        return static_cast<double>(line_.den - (from < 0 ? -from : from))
                / static_cast<double>(line_.den);
    }
    const axis_walk::line &line() const { return line_; }

    void next() {
        ++input_;
        before_ = at_;
        past_ = past_at_;
        at_ = after_;
        past_at_ = past_after_;
        after_ += step_;
        past_after_ -= step_rest_;
        if (past_after_ >= 0) return;
        ++after_;
        past_after_ += line_.slope;
    }

private:
    input_walk(
            const axis_walk::line &line, bool nearest, int64_t src, int64_t dst)
        : line_(line),
          nearest_(nearest),
          src_(src),
          dst_(dst),
          step_(line.den / line.slope),
          step_rest_(line.den % line.slope) {
        // The first output at input -2 or behind it.
        const wide_integer least = -2 * wide_integer {line.den} - line.offset;
        const wide_integer floor
                = least / line.slope - (least % line.slope < 0 ? 1 : 0);
        after_ = static_cast<int64_t>(floor);
        past_after_ = static_cast<int64_t>(floor * line.slope - least);
        if (past_after_ < 0) {
            ++after_;
            past_after_ += line.slope;
        }
        input_ = -3;
        for (int i = 0; i < 3; ++i)
            next();
    }
    int64_t within(int64_t output) const {
        return std::clamp<int64_t>(output, 0, dst_);
    }

    axis_walk::line line_;
    bool nearest_;
    int64_t src_;
    int64_t dst_;
    int64_t step_;
    int64_t step_rest_;
    int64_t input_ = 0;
    // The first output at the input before, at this, and at the next one, and how
    // far behind it each is.
    int64_t before_ = 0;
    int64_t past_ = 0;
    int64_t at_ = 0;
    int64_t past_at_ = 0;
    int64_t after_ = 0;
    int64_t past_after_ = 0;
};

/// From the axis' own tables.
template <typename Weight>
void pad_gathered(padded_taps<Weight> &padded, const gathered_axis &gathered,
        const counted_vector<Weight> &weights) {
    int64_t next = gathered.dst - 1;
    for (int64_t i = gathered.src; i-- > 0;) {
        const int64_t count = gathered.taps(i);
        if (count > 0) next = gathered.begin(i);
        padded.first[static_cast<size_t>(i)] = static_cast<int32_t>(next);
        const Weight *const from = weights.data() + gathered.weights_at(i);
        Weight *const to = padded.weights.data() + i * padded.taps;
        std::fill(
                std::copy(from, from + count, to), to + padded.taps, Weight(0));
    }
}

/// The taps of the inner inputs that follow, as far as there are some.
template <typename Weight, int64_t held>
void pad_inner(input_walk &walk, padded_taps<Weight> &padded) {
    const int64_t taps = held > 0 ? held : padded.taps;
    const auto den = static_cast<double>(walk.line().den);
    const auto slope = static_cast<double>(walk.line().slope);
    int32_t *first = padded.first.data() + walk.input();
    Weight *to = padded.weights.data() + walk.input() * taps;
    for (; walk.is_inner(); walk.next(), to += taps) {
        *first++ = static_cast<int32_t>(walk.begin());
        const auto past = static_cast<double>(walk.past_input_before());
        for (int64_t k = 0; k < taps; ++k) {
            const double behind = past + slope * static_cast<double>(k);
            const double near = std::min(behind, 2 * den - behind);
            to[k] = static_cast<Weight>(std::max(0.0, near) / den);
        }
    }
}

} // namespace

int64_t most_taps_of(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    auto walk = input_walk::of(mode, coordinates, axis, 1);
    if (!walk) {
        counted_vector<float> weights;
        return gather_axis(mode, coordinates, axis, weights).max_count;
    }
    int64_t most = 0;
    for (; walk->input() < axis.src; walk->next())
        most = std::max(most, walk->end() - walk->begin());
    return most;
}

template <typename Weight>
padded_taps<Weight> pad_taps(interpolation_mode mode,
        coordinate_mode coordinates, const interpolation_axis &axis,
        int64_t taps) {
    padded_taps<Weight> padded;
    padded.taps = taps;
    padded.first.resize(static_cast<size_t>(axis.src));
    padded.weights.resize(static_cast<size_t>(axis.src * taps));
    auto walk = input_walk::of(mode, coordinates, axis, taps);
    if (!walk) {
        counted_vector<Weight> weights;
        pad_gathered(
                padded, gather_axis(mode, coordinates, axis, weights), weights);
        return padded;
    }
    const bool linear = mode == interpolation_mode::linear;
    while (walk->input() < axis.src) {
        if (linear && walk->is_inner()) {
            switch (taps) {
                case 1: pad_inner<Weight, 1>(*walk, padded); break;
                case 2: pad_inner<Weight, 2>(*walk, padded); break;
                case 3: pad_inner<Weight, 3>(*walk, padded); break;
                case 4: pad_inner<Weight, 4>(*walk, padded); break;
                default: pad_inner<Weight, 0>(*walk, padded);
            }
            continue;
        }
        const int64_t i = walk->input();
        const int64_t begin = walk->begin();
        const int64_t end = walk->end();
        padded.first[static_cast<size_t>(i)]
                = static_cast<int32_t>(std::min(begin, axis.dst - 1));
        Weight *const to = padded.weights.data() + i * taps;
        for (int64_t k = 0; k < taps; ++k)
            to[k] = begin + k < end
                    ? static_cast<Weight>(walk->weight(begin + k))
                    : Weight(0);
        walk->next();
    }
    return padded;
}

template padded_taps<float> pad_taps(interpolation_mode, coordinate_mode,
        const interpolation_axis &, int64_t);
template padded_taps<double> pad_taps(interpolation_mode, coordinate_mode,
        const interpolation_axis &, int64_t);

} // namespace gradnn::detail
