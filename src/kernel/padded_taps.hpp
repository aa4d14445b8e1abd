// The taps of an axis with room for as many of each input, as kernels read them
// without looking up where they are.
#pragma once

#include <cstdint>

#include "base/counted_memory.hpp"
#include "kernel/problem.hpp"

namespace gradnn::detail {

/// Input i receives outputs from first[i] on, which do not descend, with `taps`
/// weights of its own: those beyond its last are 0. An input without outputs is
/// where the next that has some begins, or at the last output.
template <typename Weight>
struct padded_taps {
    int64_t taps = 1;
    counted_vector<int32_t> first;
    counted_vector<Weight> weights;
};

/// The most outputs that touch one input: max_count of the axis' map. Needs no
/// memory where coordinates are not rounded.
int64_t most_taps_of(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis);

/// Of nearest and linear maps without antialias, with the weights of their map to
/// the bit, rounded to Weight (float, double). No input may have more than `taps`
/// outputs, and an axis at most 2^31 - 1 elements.
template <typename Weight>
padded_taps<Weight> pad_taps(interpolation_mode mode,
        coordinate_mode coordinates, const interpolation_axis &axis,
        int64_t taps);

} // namespace gradnn::detail
