// How interpolation.gpu_bands cuts rows into tiles of a warp, and which planes a warp has
// side by side. Host arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/device/rounding.hpp"
#include "gpu/interpolation/bands/kernel.cuh"

namespace gradnn::gpu::interpolation::bands {

/// For rows of so many columns of diff_dst, a multiple of a lane's. `shape` becomes that
/// of `groups` planes, some side by side.
inline work_cut cut_bands(walk_shape &shape, int64_t groups, int64_t columns,
        int64_t element_bytes) {
    work_cut bands;
    bands.columns = static_cast<int32_t>(columns);
    const int64_t own = element_bytes == 2 ? 8 : 4; // elements_of_lane
    const int64_t lanes = columns / own;
    // A walk's offsets stay small (cut_runs).
    const int64_t pitch = std::max<int64_t>(
            {shape.dst_group_pitch, shape.src_group_pitch, int64_t {1}});
    int64_t slots = std::clamp<int64_t>(
            std::min(32 / lanes, ((int64_t {1} << 30) - 1) / pitch), 1, groups);
    while (groups % slots != 0)
        --slots;
    bands.slots = static_cast<int32_t>(slots);
    // A last tile of one lane would have its left margin for a right one.
    int64_t tiles = ceil_div(lanes, 32);
    while (tiles > 1 && lanes % ceil_div(lanes, tiles) == 1)
        ++tiles;
    bands.tiles = static_cast<int32_t>(tiles);
    bands.slot_lanes = static_cast<int32_t>(ceil_div(lanes, bands.tiles));
    bands.slot_dst_pitch = shape.dst_group_pitch;
    bands.slot_src_pitch = shape.src_group_pitch;
    shape.dst_group_pitch *= slots;
    shape.src_group_pitch *= slots;
    shape.row_total /= slots;
    return bands;
}

} // namespace gradnn::gpu::interpolation::bands
