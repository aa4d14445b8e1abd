// Padded taps: to the bit those of the axis map, which is tested by itself.
#include <cmath>

#include <gtest/gtest.h>

#include "base/text.hpp"
#include "kernel/axis_map.hpp"
#include "kernel/padded_taps.hpp"
#include "support/axis_maps.hpp"
#include "support/random.hpp"

namespace gradnn::detail {
namespace {

using test::random_source;

template <typename Weight>
void check_padded(interpolation_mode mode, coordinate_mode coordinates,
        const interpolation_axis &axis) {
    const axis_map map = make_axis_map(mode, coordinates, axis);
    const int64_t most = most_taps_of(mode, coordinates, axis);
    ASSERT_EQ(most, map.max_count);
    if (most > 64) return;
    const int64_t taps = most + axis.src % 2;
    const auto padded = pad_taps<Weight>(mode, coordinates, axis, taps);
    ASSERT_EQ(padded.taps, taps);
    ASSERT_EQ(padded.first.size(), static_cast<size_t>(axis.src));
    ASSERT_EQ(padded.weights.size(), static_cast<size_t>(axis.src * taps));
    int64_t next = axis.dst - 1;
    for (int64_t i = axis.src; i-- > 0;) {
        const int64_t count = map.count(i);
        if (count > 0) next = map.first(i);
        ASSERT_EQ(padded.first[static_cast<size_t>(i)], next) << "input " << i;
        for (int64_t k = 0; k < taps; ++k) {
            const Weight weight
                    = padded.weights[static_cast<size_t>(i * taps + k)];
            ASSERT_EQ(weight,
                    k < count
                            ? static_cast<Weight>(map.weight(map.offset(i) + k))
                            : Weight(0))
                    << "input " << i << ", tap " << k;
            ASSERT_FALSE(std::signbit(weight));
        }
    }
}

TEST(padded_taps, of_random_axes) {
    random_source numbers(23);
    const int samples = test::thinned() ? 300 : 3000;
    for (int sample = 0; sample < samples; ++sample) {
        const int64_t longest = sample % 20 == 0 ? 20000 : 80;
        interpolation_axis axis {numbers.integer(1, longest),
                numbers.integer(1, numbers.integer(1, longest))};
        if (numbers.integer(0, 3) == 0)
            axis.dst = axis.src * numbers.integer(1, 5);
        const auto mode = numbers.integer(0, 3) == 0
                ? interpolation_mode::nearest
                : interpolation_mode::linear;
        const auto coordinates = coordinate_modes[numbers.integer(0, 2)];
        if (coordinates != coordinate_mode::align_corners) {
            const double change
                    = std::exp2(static_cast<double>(numbers.integer(-40, 40))
                            / (sample % 2 == 0 ? 10.0 : 400.0));
            const double up = change * static_cast<double>(axis.dst)
                    / static_cast<double>(axis.src);
            const int64_t given = numbers.integer(0, 3);
            axis.scale_given = given == 1;
            if (axis.scale_given) axis.scale = static_cast<float>(up);
            axis.ratio_given = given > 1;
            if (given == 2) axis.ratio = 1 / up; // in 53 bits
            if (given == 3) axis.ratio = static_cast<float>(1 / up);
        }
        if (mode == interpolation_mode::nearest && numbers.integer(0, 1) == 0)
            axis.arithmetic = coordinate_arithmetic::float32;
        SCOPED_TRACE(text(axis.src, " from ", axis.dst, ", mode ",
                static_cast<int>(mode), ", coordinates ",
                static_cast<int>(coordinates), ", scale ", axis.scale,
                ", ratio ", axis.ratio));
        check_padded<float>(mode, coordinates, axis);
        check_padded<double>(mode, coordinates, axis);
        if (HasFatalFailure()) return;
    }
}

// Doubled, enlarged and made smaller by ratios that do not repeat.
TEST(padded_taps, of_long_axes) {
    for (const int64_t dst : {1 << 16, 46875, 32771, 15629}) {
        SCOPED_TRACE(dst);
        check_padded<float>(interpolation_mode::linear,
                coordinate_mode::half_pixel, {1 << 15, dst});
    }
}

} // namespace
} // namespace gradnn::detail
