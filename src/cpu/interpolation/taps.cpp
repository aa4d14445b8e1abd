#include "cpu/interpolation/taps.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace gradnn::cpu {

using detail::counted_vector;
using detail::data_type;

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
    // What repeats at every output is alike.
    const detail::fold &inputs = axis.inputs();
    if (inputs.period == 1 && inputs.holds(middle, middle + 1)
            && axis.outputs().period == phases.ratio) {
        phases.begin = inputs.from;
        phases.end = inputs.from + inputs.repeats + 1;
    }
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

namespace {

/// Columns [from, to) of `rows` rows, sorted by their taps, of which the first is
/// of element `first` of diff_dst: their runs, places and weights.
template <typename Acc>
void add_block(column_taps &table, const axis_taps &axis, int64_t rows,
        int64_t from, int64_t to, int64_t first, counted_vector<Acc> &weights) {
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
                        static_cast<int32_t>(r * (to - from) + i - from)});
                weights.insert(weights.end(), axis.weights<Acc>(i),
                        axis.weights<Acc>(i) + taps);
            }
    }
}

} // namespace

void add_columns(column_taps &table, const axis_taps &axis, int64_t rows,
        int64_t begin, int64_t end, int64_t block, data_type type) {
    for (int64_t from = begin; from < end; from += block) {
        const int64_t to = std::min(end, from + block);
        const int64_t first = rows > 1 ? 0 : axis.begin(from);
        column_taps::block added {from, from + rows * (to - from), first,
                rows > 1 ? rows * axis.dst : axis.end(to - 1),
                static_cast<int64_t>(table.runs.size()), 0,
                static_cast<int64_t>(table.columns.size()),
                static_cast<int64_t>(
                        table.weights_f32.size() + table.weights_f64.size())};
        const bool repeats = rows == 1 && axis.inputs().holds(from, to);
        if (repeats) {
            // One of those that begin at the same place of a period.
            const auto [known, fresh] = table.known.try_emplace(
                    {axis.inputs().of(from).row, to - from},
                    table.blocks.size());
            if (!fresh) {
                const column_taps::block &same = table.blocks[known->second];
                added.run = same.run;
                added.run_end = same.run_end;
                added.column = same.column;
                added.weight = same.weight;
                table.blocks.push_back(added);
                continue;
            }
        }
        if (type == data_type::f64)
            add_block(table, axis, rows, from, to, first, table.weights_f64);
        else
            add_block(table, axis, rows, from, to, first, table.weights_f32);
        added.run_end = static_cast<int64_t>(table.runs.size());
        table.blocks.push_back(added);
    }
}

} // namespace gradnn::cpu
