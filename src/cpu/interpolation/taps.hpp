// How the separable interpolation kernel's plan describes taps along W to the
// code that takes them.
#pragma once

#include <cstdint>
#include <optional>

#include "cpu/interpolation/separable.hpp"

namespace gradnn::cpu {

/// The taps along an axis, with `channels` within it, of so many rows that lie
/// side by side; or nothing where they are too many or too far apart.
std::optional<element_taps> find_element_taps(const axis_taps &axis,
        int64_t channels, int64_t rows, detail::data_type type);

/// The axis as phases, or nothing where its ratio is another than 2 or 4, it is
/// short or its ends do not fit.
std::optional<axis_phases> find_phases(
        const axis_taps &axis, detail::data_type type);

/// Appends columns [begin, end) of `rows` rows that lie side by side to a table,
/// in blocks of so many. More than one row has all its columns in one block.
void add_columns(column_taps &table, const axis_taps &axis, int64_t rows,
        int64_t begin, int64_t end, int64_t block, detail::data_type type);

} // namespace gradnn::cpu
