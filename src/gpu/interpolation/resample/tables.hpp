// The maps of the axes as kernels read them.
#pragma once

#include "gpu/interpolation/resample/specification.hpp"

namespace gradnn::gpu::resample {

/// The taps of a position that is written: `count` from the position `first` of those that
/// are read.
struct place {
    int first, count;
};

/// What a position that is read adds to: `low`, and the one behind it where its weight is
/// not 0.
template <typename Sum>
struct alignas(4 * sizeof(Sum)) step {
    Sum low_weight, high_weight;
    int low;
};

template <typename Sum>
struct axis_table {
    const place *places;
    const Sum *weights; ///< so many for each place: the axis' most taps
};

template <typename Sum>
struct tables {
    axis_table<Sum> walk, middle, column;
    const step<Sum> *steps; ///< by positions of `walk` that are read
    fused_places others = {};
};

} // namespace gradnn::gpu::resample
