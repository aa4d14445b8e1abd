#include "cpu/interpolation/taps.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace gradnn::cpu {

using detail::data_type;

std::optional<element_taps> find_element_taps(
        const axis_taps &axis, int64_t channels, int64_t rows, data_type type) {
    if (axis.max_count > 8) return std::nullopt;
    const int64_t lanes = separable_lanes(type);
    const int64_t row = axis.src * channels;
    const int64_t elements = rows * row;
    const bool f64 = type == data_type::f64;
    element_taps taps;
    taps.tap_stride = channels;
    taps.rows = rows;
    taps.max_count = axis.max_count;
    std::map<std::vector<double>, int32_t> patterns;
    int64_t reach = 1;
    for (int64_t begin = 0; begin < elements; begin += lanes) {
        // What is after the last element does as that one does.
        const auto element = [&](int64_t lane) {
            return std::min(begin + lane, elements - 1);
        };
        const auto first = [&](int64_t e) {
            return e / row * axis.dst * channels
                    + axis.begin(e % row / channels) * channels + e % channels;
        };
        int64_t lowest = first(begin);
        for (int64_t l = 1; l < lanes; ++l)
            lowest = std::min(lowest, first(element(l)));
        std::vector<double> key;
        element_taps::pattern pattern {};
        pattern.fewest = static_cast<int32_t>(axis.max_count);
        for (int64_t l = 0; l < lanes; ++l) {
            const int64_t e = element(l);
            const auto count
                    = static_cast<int32_t>(axis.taps(e % row / channels));
            reach = std::max(reach, first(e) - lowest + 1);
            if (reach > 4 * lanes) return std::nullopt;
            key.push_back(static_cast<double>(first(e) - lowest));
            key.push_back(count);
            pattern.fewest = std::min(pattern.fewest, count);
            pattern.most = std::max(pattern.most, count);
        }
        for (int64_t t = 0; t < axis.max_count; ++t)
            for (int64_t l = 0; l < lanes; ++l) {
                const int64_t i = element(l) % row / channels;
                const double weight = t >= axis.taps(i) ? 0.0
                        : f64 ? axis.weights<double>(i)[t]
                              : static_cast<double>(axis.weights<float>(i)[t]);
                key.push_back(weight);
            }
        const auto [found, added]
                = patterns.emplace(key, static_cast<int32_t>(patterns.size()));
        taps.vectors.push_back({static_cast<int32_t>(lowest), found->second});
        if (!added) continue;
        taps.patterns.push_back(pattern);
        for (size_t l = 0; l < static_cast<size_t>(lanes); ++l) {
            const auto count = static_cast<int32_t>(key[2 * l + 1]);
            taps.lanes.push_back(static_cast<int32_t>(key[2 * l])
                    + (count << tap_count_shift));
        }
        for (size_t k = 2 * static_cast<size_t>(lanes); k < key.size(); ++k)
            if (f64)
                taps.weights_f64.push_back(key[k]);
            else
                taps.weights_f32.push_back(static_cast<float>(key[k]));
    }
    for (taps.tables = 1; taps.tables * lanes < reach;)
        taps.tables *= 2;
    const int64_t shared = std::min<int64_t>(shared_taps, axis.max_count);
    taps.share = reach + (shared - 1) * channels <= taps.tables * lanes;
    return taps;
}

namespace {

/// Fills in the weights of the outputs next to the ends; says whether these
/// take no elements but those that axis_phases allows them, and leave out none
/// that is in the line.
bool add_ends(axis_phases &phases, const axis_taps &axis, data_type type) {
    const int64_t lanes = separable_lanes(type);
    phases.head = (phases.begin + lanes - 1) / lanes;
    phases.tail = phases.end / lanes;
    const auto add = [&](int64_t vector) {
        for (int64_t t = 0; t < phases.count; ++t)
            for (int64_t l = 0; l < lanes; ++l) {
                // What is after the last output does as that one does.
                const int64_t i = std::min(vector * lanes + l, axis.src - 1);
                const int64_t from = i * phases.ratio + phases.first;
                if (axis.begin(i) < from || axis.end(i) > from + phases.count)
                    return false;
                const int64_t element = from + t;
                const bool taken
                        = element >= axis.begin(i) && element < axis.end(i);
                if (!taken && element >= 0 && element < axis.dst) return false;
                const int64_t tap = element - axis.begin(i);
                if (type == data_type::f64)
                    phases.ends_f64.push_back(
                            taken ? axis.weights<double>(i)[tap] : 0.0);
                else
                    phases.ends_f32.push_back(
                            taken ? axis.weights<float>(i)[tap] : 0.0F);
            }
        return true;
    };
    bool done = true;
    for (int64_t v = 0; v < phases.head; ++v)
        done = done && add(v);
    for (int64_t v = phases.tail; v * lanes < axis.src; ++v)
        done = done && add(v);
    return done;
}

} // namespace

std::optional<axis_phases> find_phases(const axis_taps &axis, data_type type) {
    const int64_t lanes = separable_lanes(type);
    axis_phases phases;
    phases.ratio = axis.dst / axis.src;
    if (axis.dst % axis.src != 0 || (phases.ratio != 2 && phases.ratio != 4)
            || axis.max_count > most_phase_taps || lanes == 1
            || axis.src < 2 * lanes)
        return std::nullopt;
    const int64_t middle = axis.src / 2;
    phases.first = axis.begin(middle) - middle * phases.ratio;
    phases.count = axis.taps(middle);
    const auto same_weights = [&](auto zero, int64_t i) {
        using acc = decltype(zero);
        return std::equal(axis.weights<acc>(i),
                axis.weights<acc>(i) + phases.count, axis.weights<acc>(middle));
    };
    const auto alike = [&](int64_t i) {
        return axis.begin(i) - i * phases.ratio == phases.first
                && axis.taps(i) == phases.count
                && (type == data_type::f64 ? same_weights(0.0, i)
                                           : same_weights(0.0F, i));
    };
    phases.begin = middle;
    phases.end = middle + 1;
    while (phases.begin > 0 && alike(phases.begin - 1))
        --phases.begin;
    while (phases.end < axis.src && alike(phases.end))
        ++phases.end;
    constexpr int64_t most_others = 4;
    if (phases.count == 0 || phases.begin > most_others
            || axis.src - phases.end > most_others
            || !add_ends(phases, axis, type))
        return std::nullopt;
    return phases;
}

void add_columns(column_taps &table, const axis_taps &axis, int64_t rows,
        int64_t begin, int64_t end, int64_t block, data_type type) {
    for (int64_t from = begin; from < end; from += block) {
        const int64_t to = std::min(end, from + block);
        const int64_t columns = to - from;
        const int64_t first = rows > 1 ? 0 : axis.begin(from);
        const int64_t last = rows > 1 ? rows * axis.dst : axis.end(to - 1);
        column_taps::block added {from, from + rows * columns, first, last,
                static_cast<int64_t>(table.runs.size()), 0,
                static_cast<int64_t>(table.columns.size()),
                static_cast<int64_t>(
                        table.weights_f32.size() + table.weights_f64.size())};
        std::map<int64_t, std::vector<int64_t>> by_taps;
        for (int64_t i = from; i < to; ++i)
            by_taps[axis.taps(i)].push_back(i);
        for (const auto &[taps, those] : by_taps) {
            table.runs.push_back({static_cast<int32_t>(taps),
                    static_cast<int32_t>(
                            rows * static_cast<int64_t>(those.size()))});
            for (int64_t r = 0; r < rows; ++r)
                for (const int64_t i : those) {
                    table.columns.push_back({static_cast<int32_t>(r * axis.dst
                                                     + axis.begin(i) - first),
                            static_cast<int32_t>(r * columns + i - from)});
                    if (type == data_type::f64)
                        table.weights_f64.insert(table.weights_f64.end(),
                                axis.weights<double>(i),
                                axis.weights<double>(i) + taps);
                    else
                        table.weights_f32.insert(table.weights_f32.end(),
                                axis.weights<float>(i),
                                axis.weights<float>(i) + taps);
                }
        }
        added.run_end = static_cast<int64_t>(table.runs.size());
        table.blocks.push_back(added);
    }
}

} // namespace gradnn::cpu
