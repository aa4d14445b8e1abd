// Where the products of a position of src lie, for the kernel that adds them.
#pragma once

#include <cstdint>

#include "gpu/device/divider.hpp"

namespace gradnn::gpu::col2im {

/// The products of a position along an axis: where the first one lies, in elements from
/// the begin of an image, with those along the other axes to be added.
struct product_taps {
    int32_t offset = 0;
    int32_t count = 0;
};

/// Threads have one to four channels of a position each: as many as divide all.
struct problem_shape {
    int channels = 1;
    int32_t next
            [3] {}; ///< from a tap to the next one along D, H, W, in elements
    int table[3] {}; ///< where the axis' positions begin among all product_taps
    int64_t image = 0; ///< products of an image
    int64_t threads_of_image = 0;
    exact_divider groups; ///< of channels
    exact_divider src[3];
    int64_t strides[5] {}; ///< of diff_src: N, C, D, H, W
};

/// Channels that a thread has.
constexpr int held_channels(int64_t channels, int64_t sum_bytes) {
    if (channels == 3) return 3;
    auto held = static_cast<int>(16 / sum_bytes);
    while (channels % held != 0)
        held /= 2;
    return held;
}

} // namespace gradnn::gpu::col2im
