#include "cpu/interpolation/computed_taps.hpp"

#include <algorithm>

#include "cpu/interpolation/separable.hpp"
#include "kernel/axis_filter.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::cpu {

using detail::wide_integer;

namespace {

/// The quotient rounded up, as far as any axis is long; divisor > 0.
int64_t quotient_up(wide_integer dividend, int64_t divisor) {
    constexpr wide_integer far = wide_integer {1} << 61;
    const wide_integer floor = dividend / divisor;
    const wide_integer up = floor + (dividend % divisor > 0 ? 1 : 0);
    return static_cast<int64_t>(std::clamp(up, -far, far));
}

} // namespace

int64_t computed_taps::first_at(int64_t input, int64_t units) const {
    return quotient_up(
            wide_integer {input} * line.den - line.offset + units, line.slope);
}

double computed_taps::weight(int64_t i, int64_t output) const {
    const wide_integer distance = wide_integer {line.slope} * output
            + line.offset - wide_integer {i} * line.den;
    const bool outside = i == 0 ? distance <= 0 : i + 1 == src && distance >= 0;
    if (nearest || outside) return 1;
    const wide_integer rest = line.den - (distance < 0 ? -distance : distance);
    return static_cast<double>(static_cast<int64_t>(rest))
            / static_cast<double>(line.den);
}

void computed_taps::start(int64_t i, int64_t from, std::span<int64_t> firsts,
        std::span<int64_t> distances) const {
    int64_t first = first_of(i);
    auto distance = static_cast<int64_t>(wide_integer {line.slope} * first
            + line.offset - wide_integer {i} * line.den);
    const auto [one, rest] = to_next();
    const int64_t least = nearest ? 0 : 1 - line.den;
    for (size_t lane = 0; lane < firsts.size(); ++lane) {
        firsts[lane] = first - from;
        distances[lane] = distance;
        first += one;
        distance -= rest;
        if (distance >= least) continue;
        ++first;
        distance += line.slope;
    }
}

std::optional<computed_taps> find_computed_taps(detail::interpolation_mode mode,
        detail::coordinate_mode coordinates,
        const detail::interpolation_axis &axis, detail::data_type type,
        int64_t row_channels) {
    // Shorter tables are made in a few ms.
    constexpr int64_t least_rows = int64_t {1} << 18;
    const int64_t lanes = separable_lanes(type);
    if (is_filtered(mode, axis) || lanes == 1
            || table_rows(mode, coordinates, axis) < least_rows)
        return std::nullopt;
    const detail::axis_walk walk(mode, coordinates, axis);
    const auto line = walk.positions();
    if (!line || line->slope == 0 || axis.src < 2) return std::nullopt;
    computed_taps taps;
    taps.line = *line;
    taps.nearest = mode == detail::interpolation_mode::nearest;
    taps.src = axis.src;
    taps.dst = axis.dst;
    taps.channels = row_channels;
    // Between an input and the one two behind it (nearest: the next).
    const wide_integer reach
            = wide_integer {line->den} * (taps.nearest ? 1 : 2);
    taps.max_count = quotient_up(reach, line->slope);
    // Columns of channels have lists of them.
    constexpr int64_t most_listed = 1 << 12;
    if (row_channels > 1 && taps.max_count > most_listed) return std::nullopt;
    for (size_t k = 0; k < computed_taps::most_steps; ++k)
        taps.line_steps[k] = static_cast<int64_t>(
                wide_integer {line->slope} * static_cast<int64_t>(k));
    const wide_integer apart = wide_integer {line->den} * lanes;
    if (apart / line->slope > axis.dst) return std::nullopt;
    taps.step = static_cast<int64_t>(apart / line->slope);
    taps.step_rest = static_cast<int64_t>(apart % line->slope);
    // The ends' sums are made one by one.
    for (const int64_t end : {int64_t {0}, axis.src - 1})
        if (taps.end(end) - taps.begin(end) > taps.max_count)
            return std::nullopt;
    constexpr int64_t most_narrow = (int64_t {1} << 24) - 1;
    taps.narrow = line->den <= most_narrow
            && wide_integer {line->slope} * (taps.max_count + 1)
                    < (int64_t {1} << 30)
            && axis.dst + taps.max_count < (int64_t {1} << 30);
    if (row_channels > computed_taps::most_channels) return taps;
    // From the column of a vector's first element to that of its last.
    const int64_t columns = (lanes + row_channels - 2) / row_channels;
    const int64_t held = static_cast<int64_t>(wide_integer {line->den} * columns
                                 / line->slope)
            + 1 + taps.max_count;
    for (const int64_t tables : {4, 2, 1})
        if (held * row_channels <= tables * lanes) taps.tables = tables;
    return taps;
}

} // namespace gradnn::cpu
