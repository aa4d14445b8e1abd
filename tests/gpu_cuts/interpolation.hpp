// Random axes for the tests of interpolation's cuts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel/axis_map.hpp"
#include "support/random.hpp"

namespace gradnn::test {

inline bool one_in(random_source &random, int64_t count) {
    return random.integer(1, count) == 1;
}

/// Enlarged, reduced, or any; of up to `most` positions.
inline detail::axis_map draw_map(random_source &random, int64_t most) {
    detail::interpolation_axis axis;
    axis.src = random.integer(1, random.integer(1, most));
    axis.dst = random.integer(1, random.integer(1, most));
    if (one_in(random, 3))
        axis.dst = std::min(most, axis.src * random.integer(1, 8));
    if (one_in(random, 6)) axis.src = std::min(most, 4 * axis.dst);
    const bool nearest = one_in(random, 4);
    const auto coordinates
            = random.pick(std::vector {detail::coordinate_mode::half_pixel,
                    detail::coordinate_mode::asymmetric,
                    detail::coordinate_mode::align_corners});
    return detail::make_axis_map(nearest ? detail::interpolation_mode::nearest
                                         : detail::interpolation_mode::linear,
            nearest ? detail::coordinate_mode::half_pixel : coordinates, axis);
}

/// Of an element.
inline int64_t draw_bytes(random_source &random) {
    return random.pick(std::vector<int64_t> {2, 2, 4, 8});
}

} // namespace gradnn::test
