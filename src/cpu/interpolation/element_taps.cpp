// The look-ups of tap_lanes::elements: vectors of a row's elements, and patterns
// that those share whose taps are alike.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu/interpolation/taps.hpp"

namespace gradnn::cpu {

using detail::counted_vector;
using detail::data_type;

namespace {

/// Numbers 0, 1, ... by hashes of what they stand for.
class hashed_numbers {
public:
    /// The number of what same(number), or nothing.
    template <typename Same>
    std::optional<int32_t> find(uint64_t hash, const Same &same) const {
        for (size_t at = place_of(hash); slots_[at] >= 0; at = next(at))
            if (hashes_[static_cast<size_t>(slots_[at])] == hash
                    && same(slots_[at]))
                return slots_[at];
        return std::nullopt;
    }
    /// Gives the next number to it.
    void add(uint64_t hash) {
        hashes_.push_back(hash);
        if (2 * hashes_.size() > slots_.size()) {
            slots_.assign(4 * slots_.size(), -1);
            for (size_t number = 0; number < hashes_.size(); ++number)
                put(static_cast<int32_t>(number));
        } else {
            put(static_cast<int32_t>(hashes_.size()) - 1);
        }
    }

private:
    size_t place_of(uint64_t hash) const {
        return static_cast<size_t>(hash) & (slots_.size() - 1);
    }
    size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }
    void put(int32_t number) {
        size_t at = place_of(hashes_[static_cast<size_t>(number)]);
        while (slots_[at] >= 0)
            at = next(at);
        slots_[at] = number;
    }

    std::vector<uint64_t> hashes_;
    std::vector<int32_t> slots_ = std::vector<int32_t>(256, -1);
};

uint64_t hash_of(uint64_t hash, const void *memory, size_t bytes) {
    const auto *from = static_cast<const std::byte *>(memory);
    for (; bytes >= sizeof hash; bytes -= sizeof hash, from += sizeof hash) {
        uint64_t word = 0;
        std::memcpy(&word, from, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
        hash ^= hash >> 29;
    }
    return hash;
}

/// Fills in the vectors of element_taps and their patterns.
template <typename Acc>
class element_table {
public:
    element_table(element_taps &taps, const axis_taps &axis, int64_t channels,
            int64_t lanes, counted_vector<Acc> &weights)
        : taps_(taps),
          axis_(axis),
          channels_(channels),
          row_(axis.src * channels),
          elements_(taps.rows * row_),
          lanes_(lanes),
          weights_(weights),
          at_(static_cast<size_t>(lanes)),
          lane_values_(static_cast<size_t>(lanes)),
          lane_weights_(static_cast<size_t>(lanes * axis.max_count)) {}

    /// Says whether no vector's taps are too far apart.
    bool fill() {
        taps_.vectors.reserve(
                static_cast<size_t>((elements_ + lanes_ - 1) / lanes_));
        for (int64_t begin = 0; begin < elements_; begin += lanes_)
            if (!add_known(begin) && !add(begin)) return false;
        return true;
    }
    /// Of the taps of a vector, from the first element to the last.
    int64_t reach() const { return reach_; }

private:
    /// Where a vector begins in a stretch of the axis that repeats: its lanes
    /// are those of one that begins at the same place of another period.
    std::optional<std::pair<int64_t, int64_t>> place_of(int64_t begin) const {
        if (taps_.rows > 1 || begin + lanes_ > elements_) return std::nullopt;
        const int64_t first = begin / channels_;
        const int64_t last = (begin + lanes_ - 1) / channels_;
        const detail::fold &inputs = axis_.inputs();
        if (!inputs.holds(first, last + 1)) return std::nullopt;
        return std::pair(inputs.of(first).row, begin % channels_);
    }

    bool add_known(int64_t begin) {
        const auto place = place_of(begin);
        if (!place) return false;
        const auto found
                = by_place_.find(place->first * channels_ + place->second);
        if (found == by_place_.end()) return false;
        const auto [before, pattern] = found->second;
        taps_.vectors.push_back(
                {static_cast<int32_t>(
                         axis_.begin(begin / channels_) * channels_ - before),
                        pattern});
        return true;
    }

    /// Where each lane's taps begin, its place of the axis and its weights. What
    /// is after the last element does as that one does.
    void find_lanes(int64_t begin) {
        int64_t channel = begin % channels_;
        int64_t i = begin / channels_ % axis_.src;
        int64_t before = begin / row_ * axis_.dst;
        for (int64_t l = 0; l < lanes_; ++l) {
            lane &at = at_[static_cast<size_t>(l)];
            at.first = (before + axis_.begin(i)) * channels_ + channel;
            at.taps = static_cast<int32_t>(axis_.taps(i));
            at.weights = axis_.weights<Acc>(i);
            if (begin + l + 1 >= elements_ || ++channel < channels_) continue;
            channel = 0;
            if (++i < axis_.src) continue;
            i = 0;
            before += axis_.dst;
        }
    }

    bool add(int64_t begin) {
        find_lanes(begin);
        int64_t lowest = at_[0].first;
        for (const lane &at : at_)
            lowest = std::min(lowest, at.first);
        element_taps::pattern pattern {};
        pattern.fewest = static_cast<int32_t>(axis_.max_count);
        std::fill(lane_weights_.begin(), lane_weights_.end(), Acc {0});
        for (size_t l = 0; l < at_.size(); ++l) {
            const lane &at = at_[l];
            const int64_t index = at.first - lowest;
            reach_ = std::max(reach_, index + 1);
            if (reach_ > 4 * lanes_) return false;
            lane_values_[l] = static_cast<int32_t>(index)
                    + (at.taps << tap_count_shift);
            pattern.fewest = std::min(pattern.fewest, at.taps);
            pattern.most = std::max(pattern.most, at.taps);
            for (size_t t = 0; t < static_cast<size_t>(at.taps); ++t)
                lane_weights_[t * at_.size() + l] = at.weights[t];
        }
        const int32_t number = number_of(pattern);
        taps_.vectors.push_back({static_cast<int32_t>(lowest), number});
        if (const auto place = place_of(begin))
            by_place_.emplace(place->first * channels_ + place->second,
                    std::pair(
                            axis_.begin(begin / channels_) * channels_ - lowest,
                            number));
        make_room();
        return true;
    }

    /// Where most vectors have a pattern of their own, for all of theirs; those of
    /// the rest are not compared any more.
    void make_room() {
        constexpr size_t some = 1024;
        const size_t patterns = taps_.patterns.size();
        if (taps_.vectors.size() != some || 2 * patterns < some
                || axis_.inputs().repeats > 0)
            return;
        const size_t all = taps_.vectors.capacity();
        taps_.patterns.reserve(all);
        taps_.lanes.reserve(all * lane_values_.size());
        weights_.reserve(all * lane_weights_.size());
        shares_ = false;
    }

    /// The number of the pattern of lane_values_ and lane_weights_.
    int32_t number_of(const element_taps::pattern &pattern) {
        if (!shares_) return append(pattern);
        const uint64_t hash = hash_of(
                hash_of(0, lane_values_.data(),
                        lane_values_.size() * sizeof(int32_t)),
                lane_weights_.data(), lane_weights_.size() * sizeof(Acc));
        const auto same = [](const auto &made, const auto &table, int32_t at) {
            return std::equal(made.begin(), made.end(),
                    table.begin() + static_cast<ptrdiff_t>(made.size()) * at);
        };
        const auto known = numbers_.find(hash, [&](int32_t number) {
            return same(lane_values_, taps_.lanes, number)
                    && same(lane_weights_, weights_, number);
        });
        if (known) return *known;
        numbers_.add(hash);
        return append(pattern);
    }

    int32_t append(const element_taps::pattern &pattern) {
        const auto number = static_cast<int32_t>(taps_.patterns.size());
        taps_.patterns.push_back(pattern);
        taps_.lanes.insert(
                taps_.lanes.end(), lane_values_.begin(), lane_values_.end());
        weights_.insert(
                weights_.end(), lane_weights_.begin(), lane_weights_.end());
        return number;
    }

    element_taps &taps_;
    const axis_taps &axis_;
    const int64_t channels_;
    const int64_t row_; ///< elements
    const int64_t elements_;
    const int64_t lanes_;
    counted_vector<Acc> &weights_;
    // Of the vector at hand.
    struct lane {
        int64_t first;
        int32_t taps;
        const Acc *weights;
    };
    std::vector<lane> at_;
    std::vector<int32_t> lane_values_;
    std::vector<Acc> lane_weights_;
    int64_t reach_ = 1;
    bool shares_ = true; ///< patterns are compared
    hashed_numbers numbers_;
    /// How far before its first element's taps it looks, and its pattern.
    std::unordered_map<int64_t, std::pair<int64_t, int32_t>> by_place_;
};

} // namespace

std::optional<element_taps> find_element_taps(
        const axis_taps &axis, int64_t channels, int64_t rows, data_type type) {
    constexpr int64_t most_elements = int64_t {1} << 30;
    if (axis.max_count > 8
            || rows * std::max(axis.src, axis.dst) > most_elements / channels)
        return std::nullopt;
    const int64_t lanes = separable_lanes(type);
    element_taps taps;
    taps.tap_stride = channels;
    taps.rows = rows;
    taps.max_count = axis.max_count;
    const auto reach_of = [&](auto &weights) -> int64_t {
        element_table table(taps, axis, channels, lanes, weights);
        return table.fill() ? table.reach() : 0;
    };
    const int64_t reach = type == data_type::f64 ? reach_of(taps.weights_f64)
                                                 : reach_of(taps.weights_f32);
    if (reach == 0) return std::nullopt;
    for (taps.tables = 1; taps.tables * lanes < reach;)
        taps.tables *= 2;
    const int64_t shared = std::min<int64_t>(shared_taps, axis.max_count);
    taps.share = reach + (shared - 1) * channels <= taps.tables * lanes;
    return taps;
}

} // namespace gradnn::cpu
