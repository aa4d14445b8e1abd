#include "kernel/axis_map.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <gradnn/status.hpp>

#include "base/text.hpp"

namespace gradnn::detail {

namespace {

/// An axis without the periods that are left out of its tables.
struct folded_axis {
    int64_t src;
    int64_t dst;
    fold inputs;
    fold outputs;
    int64_t rows() const { return src + dst; }
};

// Shorter axes are tables without a fold, which are read faster.
constexpr int64_t least_folded = 2048;
/// Where outputs touch at most `width` inputs.
folded_axis fold_axis(axis_walk walk, int64_t width = 2) {
    folded_axis folded {walk.src(), walk.dst(), {}, {}};
    if (std::max(folded.src, folded.dst) < least_folded) return folded;
    const auto period = walk.repeats();
    if (!period) return folded;
    const auto [src, dst] = *period;
    // Inputs before the stretch that repeats: clamped outputs touch the first.
    const int64_t inputs_before = width + 1;
    const int64_t first = walk.first_within(width - 2);
    // What remains has two periods and the ends, and its last output reads an
    // input behind the stretch.
    const int64_t ends = 4 * width;
    int64_t repeats = std::min((folded.src - ends) / src,
                              (folded.dst - ends - first) / dst)
            - 2;
    if (repeats <= 0) return folded;
    walk.resize(folded.src - repeats * src, folded.dst - repeats * dst);
    const int64_t reach = walk.at(walk.dst() - 1).low;
    const int64_t needed = inputs_before + src + 2 * width - 3;
    if (reach < needed) repeats -= (needed - reach + src - 1) / src;
    if (repeats <= 0) return folded;
    folded.src -= repeats * src;
    folded.dst -= repeats * dst;
    folded.inputs = {inputs_before, src, repeats};
    folded.outputs = {first, dst, repeats};
    return folded;
}

void check_rows(const folded_axis &folded, const gathered_axis &axis) {
    constexpr int64_t most = int64_t {1} << 28;
    if (folded.rows() > most)
        throw error(status::unimplemented,
                text("an axis of ", axis.src, " from ", axis.dst,
                        ", whose coordinates do not repeat, needs tables of ",
                        folded.rows(), " rows; ", most, " are allowed"));
}

/// Puts the outputs of an axis under its inputs.
template <typename Weight>
class gatherer {
public:
    /// Writes to memory for one more than the inputs, and for all weights.
    gatherer(uint32_t *first, uint32_t *offset, Weight *weights)
        : first_(first), offset_(offset), weights_(weights), weight_(weights) {}

    void add(int64_t output, const output_taps &taps) {
        while (input_ < taps.low)
            open(output);
        *weight_++ = static_cast<Weight>(taps.low_weight);
        if (!taps.two) return;
        if (above_.empty()) above_first_ = output;
        above_.push_back(static_cast<Weight>(taps.high_weight));
    }

    /// Opens what remains of `src` inputs, which `dst` outputs touch, and one
    /// more, which closes the last.
    void finish(int64_t src, int64_t dst) {
        while (input_ < src)
            open(dst);
    }

    int64_t max_count() const { return max_count_; }
    int64_t fed() const { return fed_; }
    int64_t weights() const { return weight_ - weights_; }

private:
    /// The next input, whose first output is `output` unless an earlier one has
    /// it as its high tap.
    void open(int64_t output) {
        const auto begin = static_cast<uint32_t>(weight_ - weights_);
        if (input_ >= 0) {
            const int64_t taps = int64_t {begin} - offset_[input_];
            max_count_ = std::max(max_count_, taps);
            fed_ += taps > 0 ? 1 : 0;
        }
        ++input_;
        offset_[input_] = begin;
        first_[input_]
                = static_cast<uint32_t>(above_.empty() ? output : above_first_);
        for (const Weight weight : above_)
            *weight_++ = weight;
        above_.clear();
    }

    uint32_t *const first_;
    uint32_t *const offset_;
    Weight *const weights_;
    Weight *weight_; ///< the next
    std::vector<Weight> above_; ///< of the input after the open one
    int64_t above_first_ = 0;
    int64_t input_ = -1; ///< the open one
    int64_t max_count_ = 0;
    int64_t fed_ = 0;
};

/// All of them: this does not compile where one is missing.
auto members_of(const interpolation_axis &axis) {
    const auto &[a, b, c, d, e, f, g, h, i, j, k] = axis;
    return std::tuple(a, b, c, d, e, f, g, h, i, j, k);
}

bool same_axis(const interpolation_axis &a, const interpolation_axis &b) {
    return members_of(a) == members_of(b);
}

/// The same coordinates, as those of plain interpolation from src to dst.
axis_walk plain_walk(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    interpolation_axis straight = axis;
    if (axis.forward) std::swap(straight.src, straight.dst);
    return {mode == interpolation_mode::nearest ? mode
                                                : interpolation_mode::linear,
            coordinates, straight};
}

/// The map of an axis that is copied.
axis_walk walk_of_copy(int64_t size) {
    return {interpolation_mode::nearest, coordinate_mode::half_pixel,
            {size, size}};
}

thread_local shared_axis_maps *innermost = nullptr;

} // namespace

int64_t table_rows(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    if (mode == interpolation_mode::box) return axis.src + axis.dst;
    if (is_filtered(mode, axis)) {
        const axis_filter filter(mode, coordinates, axis);
        return fold_axis(filter.walk(), filter.width()).rows();
    }
    return fold_axis(axis_walk(mode, coordinates, axis)).rows();
}

bool has_tables(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    constexpr int64_t most_rows = int64_t {1} << 24;
    constexpr int64_t most_empty_rows = int64_t {1} << 20;
    if (is_filtered(mode, axis)) return true; // nothing else serves them
    const auto folded = fold_axis(axis_walk(mode, coordinates, axis));
    return folded.rows() <= most_rows
            && (folded.src <= most_empty_rows || folded.src <= 8 * folded.dst);
}

template <typename Weight, typename Visit>
gathered_axis gathered_axis::make(axis_walk walk,
        counted_vector<Weight> &weights, int64_t most_weights,
        const Visit &visit) {
    gathered_axis made;
    made.src = walk.src();
    made.dst = walk.dst();
    const folded_axis folded = fold_axis(walk);
    check_rows(folded, made);
    walk.resize(folded.src, folded.dst);
    made.inputs_ = folded.inputs;
    made.outputs_ = folded.outputs;
    made.first_.resize(static_cast<size_t>(folded.src) + 1);
    made.offset_.resize(static_cast<size_t>(folded.src) + 1);
    weights.resize(static_cast<size_t>(folded.dst * most_weights));
    gatherer<Weight> gather(
            made.first_.data(), made.offset_.data(), weights.data());
    made.identity = made.src == made.dst;
    for (int64_t o = 0; o < folded.dst; ++o) {
        const output_taps taps = walk.at(o);
        made.identity = made.identity && taps.low == o && !taps.two;
        gather.add(o, taps);
        visit(taps.low);
    }
    gather.finish(folded.src, folded.dst);
    weights.resize(static_cast<size_t>(gather.weights()));
    made.max_count = gather.max_count();
    made.fed_ = gather.fed();
    made.find_period();
    return made;
}

template <typename Weight>
gathered_axis gathered_axis::make(
        axis_filter filter, bool forward, counted_vector<Weight> &weights) {
    gathered_axis made;
    made.src = filter.walk().src();
    made.dst = filter.walk().dst();
    made.identity = false;
    const folded_axis folded = fold_axis(filter.walk(), filter.width());
    check_rows(folded, made);
    constexpr int64_t most = int64_t {1} << 28;
    if (folded.dst > most / filter.width())
        throw error(status::unimplemented,
                text("an axis of ", made.src, " to ", made.dst,
                        ", whose outputs read ", filter.width(),
                        " elements each, needs more than 2^28 weights"));
    filter.resize(folded.src, folded.dst);
    made.inputs_ = folded.inputs;
    made.outputs_ = folded.outputs;
    // By output: its first input, and where its weights begin.
    std::vector<uint32_t> lows, begins {0};
    std::vector<double> all;
    lows.reserve(static_cast<size_t>(folded.dst));
    begins.reserve(static_cast<size_t>(folded.dst) + 1);
    for (int64_t o = 0; o < folded.dst; ++o) {
        const axis_filter::taps taps = filter.at(o);
        lows.push_back(static_cast<uint32_t>(taps.low));
        all.insert(all.end(), taps.weights.begin(), taps.weights.end());
        begins.push_back(static_cast<uint32_t>(all.size()));
    }
    if (forward) {
        std::swap(made.src, made.dst);
        std::swap(made.inputs_, made.outputs_);
        made.first_.assign(lows.begin(), lows.end());
        made.first_.push_back(static_cast<uint32_t>(folded.src));
        made.offset_.assign(begins.begin(), begins.end());
        weights.resize(all.size());
        std::transform(all.begin(), all.end(), weights.begin(),
                [](double weight) { return static_cast<Weight>(weight); });
    } else {
        made.gather_outputs(folded.src, lows, begins);
        weights.assign(made.offset_.back(), Weight(0));
        for (size_t o = 0; o < lows.size(); ++o)
            for (uint32_t k = begins[o]; k < begins[o + 1]; ++k) {
                const size_t i = lows[o] + k - begins[o];
                weights[made.offset_[i] + o - made.first_[i]]
                        = static_cast<Weight>(all[k]);
            }
    }
    made.max_count = 0;
    made.fed_ = 0;
    for (size_t i = 0; i + 1 < made.offset_.size(); ++i) {
        const int64_t taps = made.taps_of_row(static_cast<int64_t>(i));
        made.max_count = std::max(made.max_count, taps);
        made.fed_ += taps > 0 ? 1 : 0;
    }
    made.find_period();
    return made;
}

template <typename Weight>
gathered_axis gathered_axis::make_box(
        int64_t src, int64_t dst, counted_vector<Weight> &weights) {
    gathered_axis made;
    made.src = made.fed_ = src;
    made.dst = dst;
    made.identity = src == 1 && dst == 1;
    const int64_t last = std::min(src, dst) - 1;
    const int64_t more = std::max(src, dst) - 1 - last;
    made.first_.clear();
    made.offset_.assign(1, 0);
    for (int64_t i = 0; i < src; ++i) {
        const int64_t begin = std::max<int64_t>(0, last - i);
        const int64_t taps = std::min(dst, last - i + more + 1) - begin;
        made.first_.push_back(static_cast<uint32_t>(begin));
        made.offset_.push_back(
                made.offset_.back() + static_cast<uint32_t>(taps));
        made.max_count = std::max(made.max_count, taps);
    }
    made.first_.push_back(0);
    weights.assign(made.offset_.back(), Weight(1));
    return made;
}

/// first_ and offset_ of so many inputs from what outputs read.
void gathered_axis::gather_outputs(int64_t inputs,
        const std::vector<uint32_t> &lows,
        const std::vector<uint32_t> &begins) {
    const auto rows = static_cast<size_t>(inputs);
    const auto outputs = static_cast<uint32_t>(lows.size());
    std::vector<uint32_t> ends(rows, 0);
    first_.assign(rows + 1, outputs);
    for (uint32_t o = 0; o < outputs; ++o)
        for (size_t i = lows[o]; i < lows[o] + begins[o + 1] - begins[o]; ++i) {
            first_[i] = std::min(first_[i], o);
            ends[i] = o + 1;
        }
    // An input of no output is where the next one begins.
    for (size_t i = rows; i-- > 0;)
        if (ends[i] == 0) ends[i] = first_[i] = first_[i + 1];
    offset_.assign(1, 0);
    for (size_t i = 0; i < rows; ++i)
        offset_.push_back(offset_.back() + ends[i] - first_[i]);
}

/// The weights of a period of the inputs, and how many of all inputs are fed.
void gathered_axis::find_period() {
    if (inputs_.repeats == 0) return;
    const auto from = static_cast<size_t>(inputs_.from);
    const auto end = from + static_cast<size_t>(inputs_.period);
    weight_period_ = int64_t {offset_[end]} - offset_[from];
    for (auto i = from; i < end; ++i)
        if (offset_[i + 1] > offset_[i]) fed_ += inputs_.repeats;
}

namespace {

/// Calls visit as gathered_axis::make does, of maps of two taps alone.
template <typename Weight, typename Visit>
gathered_axis gather_taps(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis, counted_vector<Weight> &weights,
        const Visit &visit) {
    if (mode == interpolation_mode::box)
        return gathered_axis::make_box(axis.src, axis.dst, weights);
    const bool filtered = is_filtered(mode, axis);
    if (filtered && !is_identity(mode, coordinates, axis))
        return gathered_axis::make(
                axis_filter(mode, coordinates, axis), axis.forward, weights);
    return gathered_axis::make(filtered ? walk_of_copy(axis.src)
                                        : axis_walk(mode, coordinates, axis),
            weights, mode == interpolation_mode::nearest ? 1 : 2, visit);
}

} // namespace

template <typename Weight>
gathered_axis gather_axis(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis, counted_vector<Weight> &weights) {
    return gather_taps(mode, coordinates, axis, weights, [](int64_t) {});
}

template gathered_axis gather_axis(interpolation_mode, coordinate_mode,
        const interpolation_axis &, counted_vector<float> &);
template gathered_axis gather_axis(interpolation_mode, coordinate_mode,
        const interpolation_axis &, counted_vector<double> &);

bool is_identity(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    if (axis.src != axis.dst) return false;
    if (mode == interpolation_mode::box)
        return axis.src == 1; // else turned around
    // What is cubic or widened is one where the plain map is.
    axis_walk walk = plain_walk(mode, coordinates, axis);
    const folded_axis folded = fold_axis(walk);
    if (folded.src != folded.dst) return false;
    walk.resize(folded.src, folded.dst);
    for (int64_t o = 0; o < folded.dst; ++o) {
        const output_taps taps = walk.at(o);
        if (taps.low != o || taps.two) return false;
    }
    return true;
}

axis_map make_axis_map(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    if (innermost != nullptr)
        for (const auto &each : innermost->made_)
            if (each.mode == mode && each.coordinates == coordinates
                    && same_axis(each.axis, axis))
                return each.map;
    auto tables = std::make_shared<axis_map::tables>();
    axis_map map;
    tables->gathered = gather_taps(
            mode, coordinates, axis, tables->weights, [&](int64_t low) {
                tables->low.push_back(static_cast<uint32_t>(low));
            });
    map.two_taps = !tables->low.empty();
    tables->weight_rows = tables->gathered.weight_fold();
    map.src = axis.src;
    map.dst = axis.dst;
    map.max_count = tables->gathered.max_count;
    map.identity = tables->gathered.identity;
    map.tables_ = std::move(tables);
    if (innermost != nullptr)
        innermost->made_.push_back({mode, coordinates, axis, map});
    return map;
}

shared_axis_maps::shared_axis_maps() : outer_(innermost) {
    innermost = this;
}

shared_axis_maps::~shared_axis_maps() {
    innermost = outer_;
}

} // namespace gradnn::detail
