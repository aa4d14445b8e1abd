// Shapes of convolutions.
#pragma once

#include <string>
#include <vector>

#include "generate.hpp"

namespace gradnn::fuzz {

/// One spatial axis. Element y of the small tensor meets element y * stride
/// - pads_begin + k * dilation of the large one.
struct window_axis {
    int64_t large = 1;
    int64_t small = 1;
    int64_t kernel = 1;
    int64_t stride = 1;
    int64_t dilation = 1;
    int64_t pads_begin = 0;
    int64_t pads_end = 0;
    /// What large has beyond the least that gives small.
    int64_t rest = 0;

    int64_t reach() const { return (kernel - 1) * dilation + 1; }
};

struct convolution_shape {
    int64_t n = 1;
    int64_t groups = 1;
    int64_t large_channels = 1;
    int64_t small_channels = 1;
    std::string auto_pad = "none";
    std::vector<window_axis> axes;

    /// About how many products, or elements that weigh as much.
    int64_t work() const;
};

convolution_shape draw_convolution(
        random_source &numbers, bool transposed, int64_t most_work);

/// With the dims of one side given.
convolution_shape draw_convolution_around(random_source &numbers,
        const graph_builder &graph, const dims &given, bool transposed);

/// 2^40 and more, which the library may refuse; where no sum depends on it.
void exceed_limits(random_source &numbers, convolution_shape &s);

} // namespace gradnn::fuzz
