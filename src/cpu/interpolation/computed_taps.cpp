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

/// What antialias and exclude_outside change; or false where that is not computed.
bool add_filter(computed_taps &taps, detail::coordinate_mode coordinates,
        const detail::interpolation_axis &axis) {
    const bool widened = axis.antialias && taps.line.slope > taps.line.den;
    // Of a filter as wide as outputs are apart: by sizes, not by corners.
    if (widened ? coordinates == detail::coordinate_mode::align_corners
                : axis.exclude_outside)
        return false;
    constexpr int64_t most_units = int64_t {1} << 50; // doubles are exact
    if (widened) taps.unit = taps.line.slope;
    taps.exclude_outside = axis.exclude_outside;
    // Where outputs lie beyond what they read, or weights cancel, sums may be 0.
    const wide_integer first = taps.line.offset;
    const wide_integer last
            = wide_integer {taps.line.slope} * (axis.dst - 1) + first;
    const bool reads = first > -taps.unit
            && last < wide_integer {axis.src - 1} * taps.line.den + taps.unit;
    return taps.unit < most_units && taps.inputs_beside() < (1 << 10)
            && (!widened || (reads && axis.cubic_coeff_a <= 0));
}

} // namespace

int64_t computed_taps::first_at(int64_t input, int64_t units) const {
    return quotient_up(
            wide_integer {input} * line.den - line.offset + units, line.slope);
}

double computed_taps::filtered(wide_integer distance) const {
    const auto units = static_cast<double>(distance < 0 ? -distance : distance);
    const auto one = static_cast<double>(unit);
    const double to_one = (one - units) / one;
    if (filter != shape::cubic) return std::max(0.0, to_one);
    const double x = units / one;
    if (x < 1) return to_one * (1 + x * (1 - (cubic_coeff_a + 2) * x));
    const double to_two = (2 * one - units) / one;
    return x < 2 ? -cubic_coeff_a * to_one * to_two * to_two : 0;
}

double computed_taps::weight(int64_t i, int64_t output) const {
    const double weight = before_division(i, output);
    return is_widened() ? weight / sum_of(output) : weight;
}

double computed_taps::before_division(int64_t i, int64_t output) const {
    if (filter == shape::nearest) return 1;
    // Inputs beyond an end are that end.
    const wide_integer from = distance(i, output);
    const int64_t apart = i == 0 ? line.den : i + 1 == src ? -line.den : 0;
    if (apart == 0 || exclude_outside) return filtered(from);
    if (filter == shape::linear && !is_widened() && from * apart <= 0) return 1;
    double sum = 0;
    const wide_integer reach = end_distance();
    wide_integer at = from; // of the first that is within reach
    if (apart > 0 && at <= -reach) at += (-reach - at) / apart * apart;
    if (apart < 0 && at >= reach) at += (at - reach) / -apart * apart;
    for (; apart > 0 ? at < reach : at > -reach; at += apart)
        sum += filtered(at);
    return sum;
}

int64_t computed_taps::rest_of(int64_t output) const {
    const auto rest = static_cast<int64_t>(distance(0, output) % line.den);
    return rest < 0 ? rest + line.den : rest;
}

double computed_taps::sum_of(int64_t output) const {
    const wide_integer low = (distance(0, output) - rest_of(output)) / line.den;
    const int64_t most = inputs_beside();
    double sum = 0;
    for (wide_integer i = low + 1 - most; i <= low + most; ++i)
        if (!exclude_outside || (i >= 0 && i < src))
            sum += filtered(distance(static_cast<int64_t>(i), output));
    return sum;
}

void computed_taps::start(int64_t i, int64_t from, std::span<int64_t> firsts,
        std::span<int64_t> distances) const {
    int64_t first = first_of(i);
    auto units = static_cast<int64_t>(distance(i, first));
    const auto [one, rest] = to_next();
    for (size_t lane = 0; lane < firsts.size(); ++lane) {
        firsts[lane] = first - from;
        distances[lane] = units;
        first += one;
        units -= rest;
        if (units >= least()) continue;
        ++first;
        units += line.slope;
    }
}

std::optional<computed_taps> find_computed_taps(detail::interpolation_mode mode,
        detail::coordinate_mode coordinates,
        const detail::interpolation_axis &axis, detail::data_type type,
        int64_t row_channels) {
    // Shorter tables are made in a few ms.
    constexpr int64_t least_rows = int64_t {1} << 18;
    const int64_t lanes = separable_lanes(type);
    if (axis.forward || lanes == 1
            || table_rows(mode, coordinates, axis) < least_rows)
        return std::nullopt;
    const detail::axis_walk walk(mode, coordinates, axis);
    const auto line = walk.positions();
    if (!line || line->slope == 0 || axis.src < 2) return std::nullopt;
    using detail::interpolation_mode;
    computed_taps taps;
    taps.line = *line;
    taps.filter = mode == interpolation_mode::nearest
            ? computed_taps::shape::nearest
            : mode == interpolation_mode::cubic ? computed_taps::shape::cubic
                                                : computed_taps::shape::linear;
    taps.cubic_coeff_a = axis.cubic_coeff_a;
    taps.src = axis.src;
    taps.dst = axis.dst;
    taps.channels = row_channels;
    taps.unit = line->den;
    if (is_filtered(mode, axis) && !add_filter(taps, coordinates, axis))
        return std::nullopt;
    // Between those that are in reach at either side.
    taps.max_count = quotient_up(
            wide_integer {taps.end_distance()} - taps.least(), line->slope);
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
    taps.narrow = taps.filter != computed_taps::shape::cubic
            && taps.unit <= most_narrow
            && wide_integer {line->slope} * (taps.max_count + 1)
                    < (int64_t {1} << 30)
            && axis.dst + taps.max_count < (int64_t {1} << 30);
    if (row_channels > computed_taps::most_channels
            || (row_channels > 1 && row_channels >= lanes))
        return taps; // lists of columns are faster
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
