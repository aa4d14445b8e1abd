#include "kernel/axis_shape.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace gradnn::detail {

namespace {

/// The positions of a period as those in the middle.
std::optional<axis_repetition> repetition_by(const axis_map &map, int inputs,
        size_t most_taps, bool in_float, bool places_alone) {
    constexpr int64_t most_odd = 8, most_outputs = 1 << 10;
    const auto weight_of = [&](int64_t i, int64_t tap) {
        const double weight = map.weight_of_tap(i, tap);
        return in_float ? static_cast<float>(weight) : weight;
    };
    const int64_t middle = map.src / 2 / inputs * inputs;
    int64_t met = middle; // has taps, if there is one
    while (met < middle + inputs - 1 && map.count(met) == 0)
        ++met;
    const int64_t outputs = map.first(met) - map.first(met - inputs);
    if (outputs < 1 || outputs > most_outputs) return {};
    axis_repetition made {inputs, static_cast<int>(outputs)};
    for (int64_t i = middle; i < middle + inputs; ++i) {
        const auto taps = static_cast<size_t>(map.count(i));
        if (taps > most_taps || (taps == 0 && places_alone)) return {};
        auto &[first, weights] = made.positions.emplace_back();
        // Reductions leave inputs without taps.
        if (taps > 0)
            first = static_cast<int>(map.first(i) - middle / inputs * outputs);
        for (size_t t = 0; t < taps; ++t)
            weights.push_back(weight_of(i, static_cast<int64_t>(t)));
    }
    size_t k = 0; // i % inputs
    int64_t period = 0; // i / inputs * outputs
    for (int64_t i = 0; i < map.src; ++i) {
        const auto &[first_of, weights] = made.positions[k];
        const int64_t window = period + first_of;
        if (++k == made.positions.size()) {
            k = 0;
            period += outputs;
        }
        const int64_t first = std::max<int64_t>(0, window);
        const int64_t end = std::min(
                map.dst, window + static_cast<int64_t>(weights.size()));
        const int64_t taps = map.count(i);
        if (taps != std::max<int64_t>(0, end - first)
                || (taps > 0 && map.first(i) != first))
            return {};
        bool same = true;
        for (int64_t o = first; o < end && same; ++o)
            same = weight_of(i, o - first)
                    == weights[static_cast<size_t>(o - window)];
        if (same) continue;
        if (i < most_odd || places_alone)
            made.odd_first = static_cast<int>(i) + 1;
        else if (i >= map.src - most_odd)
            made.odd_last
                    = std::max(made.odd_last, static_cast<int>(map.src - i));
        else
            return {};
    }
    return made;
}

} // namespace

bool is_of_ones(const axis_map &map) {
    return std::ranges::all_of(map.all_weights<double>(),
            [](double weight) { return weight == 1; });
}

bool has_all(const axis_map &map) {
    return map.src == 1 && map.count(0) == map.dst && is_of_ones(map);
}

axis_shape shape_of(const axis_map &map) {
    const int most = std::max(1, static_cast<int>(map.max_count));
    axis_shape made {most, most};
    map.inputs().each_row(map.src, [&](int64_t i) {
        made.least_taps
                = std::min(made.least_taps, static_cast<int>(map.count(i)));
    });
    if (!map.two_taps) return made;
    map.outputs().of_pairs().each_row(map.dst,
            [&](int64_t o) { made.two = made.two || map.high_weight(o) != 0; });
    return made;
}

axis_spans::axis_spans(const axis_map &map)
    : taps_(static_cast<size_t>(map.src)) {
    int end = 0;
    for (int64_t i = 0; i < map.src; ++i) {
        // Those that have no taps lie in order too.
        const int taps = static_cast<int>(map.count(i));
        const int first = taps > 0 ? static_cast<int>(map.first(i)) : end;
        end = first + taps;
        taps_[static_cast<size_t>(i)] = {first, end};
    }
}

int axis_spans::of(int inputs) {
    int &most = known_[inputs];
    if (most > 0) return most;
    most = 1;
    const auto step = static_cast<size_t>(inputs);
    for (size_t i = 0; i < taps_.size(); i += step) {
        const size_t last = std::min(taps_.size(), i + step) - 1;
        most = std::max(most, taps_[last].second - taps_[i].first);
    }
    return most;
}

axis_repetition repetition_of(
        const axis_map &map, int most_inputs, size_t most_taps, bool in_float) {
    for (const bool places_alone : {false, true})
        for (int inputs = 1; inputs <= most_inputs && 3 * inputs <= map.src;
                ++inputs)
            if (auto found = repetition_by(
                        map, inputs, most_taps, in_float, places_alone))
                return *std::move(found);
    return {};
}

} // namespace gradnn::detail
