// Which outputs of an interpolation axis touch which inputs, exactly, in both
// directions. What repeats is kept once.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counted_memory.hpp"
#include "kernel/axis_filter.hpp"
#include "kernel/axis_walk.hpp"
#include "kernel/problem.hpp"

namespace gradnn::detail {

/// Numbers 0, 1, ... of which a stretch repeats: those after its first period
/// are in the same row of a table as the ones a period before.
struct fold {
    int64_t from = 0;
    int64_t period = 1;
    int64_t repeats = 0; ///< after the first; 0: each number is its own row

    struct place {
        int64_t row;
        int64_t shift; ///< periods that are left out before it
    };
    place of(int64_t number) const {
        if (repeats == 0 || number < from + period) return {number, 0};
        if (number >= from + (repeats + 1) * period)
            return {number - repeats * period, repeats};
        const int64_t shift = (number - from) / period;
        return {number - shift * period, shift};
    }
    /// Whether numbers [begin, end) are of the stretch.
    bool holds(int64_t begin, int64_t end) const {
        return repeats > 0 && begin >= from
                && end <= from + (repeats + 1) * period;
    }
    /// As of the second period on: each_row then has every pair of neighbours.
    fold of_pairs() const {
        return {from + period, period, std::max<int64_t>(0, repeats - 1)};
    }
    /// The numbers of a table's rows, each once: calls visit(number).
    template <typename Visit>
    void each_row(int64_t count, const Visit &visit) const {
        const int64_t middle = repeats == 0 ? count : from + period;
        for (int64_t number = 0; number < middle; ++number)
            visit(number);
        if (repeats == 0) return;
        for (int64_t number = from + (repeats + 1) * period; number < count;
                ++number)
            visit(number);
    }
};

/// Gathered: src element i receives the outputs begin(i) <= o < end(i), output
/// o with weight number offset(i) + o - begin(i). Of nearest and linear maps no
/// weight is 0: a tap of weight 0 is no tap, so Inf and NaN do not travel along
/// it. Of a forward axis src stands for what is written and dst for what is read.
class gathered_axis {
public:
    int64_t src = 1;
    int64_t dst = 1;
    /// The most outputs that touch one input.
    int64_t max_count = 1;
    /// Every output touches the input of its own index, with weight 1.
    bool identity = true;

    int64_t begin(int64_t i) const {
        const fold::place at = inputs_.of(i);
        return first_[static_cast<size_t>(at.row)] + at.shift * outputs_.period;
    }
    int64_t taps(int64_t i) const { return taps_of_row(inputs_.of(i).row); }
    int64_t end(int64_t i) const { return begin(i) + taps(i); }
    /// Where the weights of i are in the table, which has those of a period
    /// once.
    int64_t weights_at(int64_t i) const {
        return offset_[static_cast<size_t>(inputs_.of(i).row)];
    }
    /// Where they would be without that.
    int64_t offset(int64_t i) const {
        const fold::place at = inputs_.of(i);
        return offset_[static_cast<size_t>(at.row)] + at.shift * weight_period_;
    }
    /// Row of the table of a weight by its number.
    fold weight_fold() const {
        return {inputs_.repeats == 0
                        ? 0
                        : offset_[static_cast<size_t>(inputs_.from)],
                std::max<int64_t>(1, weight_period_), inputs_.repeats};
    }
    const fold &inputs() const { return inputs_; }
    const fold &outputs() const { return outputs_; }
    /// All taps, and inputs that have any.
    int64_t all_taps() const { return offset(src); }
    int64_t fed() const { return fed_; }

    /// Calls visit(low) for the output of each row of the outputs. An output
    /// has at most `most_weights`.
    template <typename Weight, typename Visit>
    static gathered_axis make(axis_walk walk, counted_vector<Weight> &weights,
            int64_t most_weights, const Visit &visit);
    /// Of any filter; written are its inputs, or forwards its outputs.
    template <typename Weight>
    static gathered_axis make(
            axis_filter filter, bool forward, counted_vector<Weight> &weights);
    /// Of interpolation_mode::box: begins descend.
    template <typename Weight>
    static gathered_axis make_box(
            int64_t src, int64_t dst, counted_vector<Weight> &weights);

private:
    void gather_outputs(int64_t inputs, const std::vector<uint32_t> &lows,
            const std::vector<uint32_t> &begins);
    void find_period();
    int64_t taps_of_row(int64_t row) const {
        const auto at = static_cast<size_t>(row);
        return int64_t {offset_[at + 1]} - offset_[at];
    }

    fold inputs_;
    fold outputs_;
    int64_t weight_period_ = 0;
    int64_t fed_ = 1;
    // By row of the inputs (offset_: one more).
    counted_vector<uint32_t> first_ {0};
    counted_vector<uint32_t> offset_ {0, 1};
};

/// Rows of the tables of an axis' inputs and outputs: bytes are a few times as
/// many.
int64_t table_rows(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis);

/// Whether an axis is one that tables serve. Of the others, which are millions
/// long and repeat nothing, kernels compute coordinates as they go.
bool has_tables(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis);

/// The weights, in the order of the inputs, rounded to Weight (float, double),
/// go to `weights`. Throws unimplemented where tables would have more rows than
/// memory is for.
template <typename Weight>
gathered_axis gather_axis(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis, counted_vector<Weight> &weights);

/// Whether every output touches the input of its own index, with weight 1.
bool is_identity(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis);

/// Any integer's value.
struct number_of {
    int64_t value;
    template <std::integral Number>
    number_of(Number number) : value(static_cast<int64_t>(number)) {}
    operator int64_t() const { return value; }
};

/// The map of one axis in both directions. Copies share what is in it.
///
/// Forward: output o reads src[low(o)] * low_weight(o)
/// + src[high(o)] * high_weight(o), high(o) being low(o) + 1 or, where that
/// tap has weight 0 or falls on the same element, low(o) (then high_weight is
/// 0 and low_weight 1 or the sum); of maps with `two_taps` alone. Gathered: as
/// gathered_axis.
class axis_map {
public:
    int64_t src = 0;
    int64_t dst = 0;
    int64_t max_count = 0;
    bool identity = false;
    bool two_taps = true; ///< no output has more

    int64_t low(number_of o) const {
        const gathered_axis &axis = tables_->gathered;
        const fold::place at = axis.outputs().of(o);
        return tables_->low[static_cast<size_t>(at.row)]
                + at.shift * axis.inputs().period;
    }
    int64_t high(number_of o) const {
        const int64_t at = low(o);
        return high_weight_at(o, at) != 0 ? at + 1 : at;
    }
    double low_weight(number_of o) const {
        const int64_t i = low(o);
        return weight_at(i, o - first(i));
    }
    double high_weight(number_of o) const { return high_weight_at(o, low(o)); }

    int64_t first(number_of i) const { return tables_->gathered.begin(i); }
    int64_t count(number_of i) const { return tables_->gathered.taps(i); }
    /// Of the first of i's weights, i up to src.
    int64_t offset(number_of i) const { return tables_->gathered.offset(i); }
    /// By its number.
    double weight(number_of number) const {
        return tables_->weights[static_cast<size_t>(
                tables_->weight_rows.of(number).row)];
    }
    /// Of an input's taps by their numbers.
    double weight_of_tap(int64_t i, int64_t tap) const {
        return weight_at(i, tap);
    }
    /// All of them, in order.
    template <typename Weight>
    std::vector<Weight> all_weights() const {
        std::vector<Weight> all(static_cast<size_t>(offset(src)));
        for (size_t k = 0; k < all.size(); ++k)
            all[k] = static_cast<Weight>(weight(static_cast<int64_t>(k)));
        return all;
    }
    /// Inputs that an output touches.
    int64_t fed() const { return tables_->gathered.fed(); }
    /// Which inputs, and which outputs, repeat.
    const fold &inputs() const { return tables_->gathered.inputs(); }
    const fold &outputs() const { return tables_->gathered.outputs(); }

private:
    friend axis_map make_axis_map(
            interpolation_mode, coordinate_mode, const interpolation_axis &);

    struct tables {
        gathered_axis gathered;
        counted_vector<double> weights;
        fold weight_rows;
        counted_vector<uint32_t> low; ///< by row of the outputs
    };

    double weight_at(int64_t i, int64_t tap) const {
        return tables_->weights[static_cast<size_t>(
                tables_->gathered.weights_at(i) + tap)];
    }
    double high_weight_at(int64_t o, int64_t low) const {
        if (low + 1 >= src) return 0;
        const int64_t tap = o - first(low + 1);
        return tap >= 0 && tap < count(low + 1) ? weight_at(low + 1, tap) : 0;
    }

    std::shared_ptr<const tables> tables_;
};

/// As gather_axis. Within a shared_axis_maps the same map for the same axis.
axis_map make_axis_map(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis);

/// While one lives, maps that its thread makes are made once each: kernels that
/// are asked one after the other for one problem share them.
class shared_axis_maps {
public:
    shared_axis_maps();
    ~shared_axis_maps();
    shared_axis_maps(const shared_axis_maps &) = delete;
    shared_axis_maps &operator=(const shared_axis_maps &) = delete;

private:
    friend axis_map make_axis_map(
            interpolation_mode, coordinate_mode, const interpolation_axis &);
    struct entry {
        interpolation_mode mode;
        coordinate_mode coordinates;
        interpolation_axis axis;
        axis_map map;
    };
    std::vector<entry> made_;
    shared_axis_maps *outer_;
};

} // namespace gradnn::detail
