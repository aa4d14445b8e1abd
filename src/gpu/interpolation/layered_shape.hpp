// A problem as layers of rows of columns of channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::interpolation {

/// A layer of a group is rows of columns of channels (an image has one row to a
/// layer). Pitches in elements.
struct layered_shape {
    int64_t dst_group_pitch = 0;
    int64_t src_group_pitch = 0;
    int64_t dst_layer_pitch = 0;
    int64_t src_layer_pitch = 0;
    int64_t dst_row_pitch = 0;
    int64_t src_row_pitch = 0;
    int64_t groups = 1;
    int64_t dst_elements
            = 1; ///< from the tensor's first to the end of its last
    int32_t dst_layers = 1;
    int32_t src_layers = 1;
    int32_t dst_rows = 1;
    int32_t src_rows = 1;
    int32_t dst_columns = 1;
    int32_t src_columns = 1;
    int32_t channels = 1; ///< neighbouring elements of a column
};

/// Room for the weights of an output in shared memory, from which they are read so many
/// at once.
constexpr int weights_at_once = 4;
inline int64_t room_for_weights(int64_t taps) {
    return round_up(std::max<int64_t>(taps, 1), int64_t {weights_at_once});
}

} // namespace gradnn::gpu::interpolation
