// How interpolation.gpu_whole cuts a problem: the order of the axes, the groups of a
// chunk, the threads of a block. Host arithmetic; the kernel reads its result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/device/divider.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/multiprocessor.hpp"
#include "kernel/axis_map.hpp"

namespace gradnn::gpu::interpolation::whole {

constexpr int most_threads = 512;
/// Of an SM, for which the registers must do.
constexpr int resident_threads = 1024;

/// Weights of a position begin at a multiple of it; above so many taps their room is a
/// multiple of twice it.
constexpr int64_t weights_at_once = 4;

/// What feeds a position of diff_src along an axis: `count` elements from `start` on,
/// counted from the first one of the axis, and where their weights are.
struct alignas(16) position_taps {
    int32_t start = 0;
    int32_t count = 0;
    int32_t weights = 0;
};

/// One axis, resampled in shared memory:
///
///     [outer][given][inner]  to  [outer][taken][inner]
///
/// `width` neighbouring elements of `inner` are a cell, which a thread makes; the last
/// cell of three may have fewer.
struct axis_pass {
    int32_t outer = 1; ///< of a group
    int32_t given = 1; ///< positions of diff_dst
    int32_t taken = 1; ///< positions of diff_src
    int32_t inner = 1;
    int32_t width = 1;
    int32_t most_taps = 0;
    int32_t positions_at
            = 0; ///< of its position_taps, among those of all passes
    exact_divider cells; ///< of `inner`
    exact_divider positions; ///< by `taken`
};

/// A group is a volume (or image) of one channel in NCX, of all channels in NXC. A chunk
/// is what a block has at a time: neighbouring groups.
struct work_shape {
    int64_t groups = 0;
    int32_t dst_elements = 1; ///< of a group
    int32_t src_elements = 1;
    int32_t chunk_groups = 1;
    int32_t chunks = 1;
    int32_t passes = 0;
    axis_pass pass[3];
    // Shared memory: the stage, then these, in bytes.
    int32_t first_at = 0; ///< results of the passes but the last
    int32_t second_at = 0;
    int32_t weights_at = 0;
    int32_t positions_at = 0;
    int32_t position_count = 0; ///< over all passes
    int32_t weight_count = 0;
};

/// A problem, and what the search knows beside it.
struct search_facts {
    int64_t groups = 1;
    int64_t channels = 1;
    int element_bytes = 4;
    int sum_bytes = 4;
    int64_t shared_bytes = 0; ///< that a block may have
    int64_t multiprocessors = 1;
    multiprocessor sm;
};

struct work_cut {
    work_shape shape;
    int threads = 0; ///< 0: there is no cut
    int64_t shared_bytes = 0;
    int64_t blocks = 0;
    double cycles = 0; ///< an estimate
    std::vector<position_taps> positions;
    std::vector<double> weights;
};

/// The cut of the lowest estimate. The order of the axes, and so that of the sums,
/// follows from the maps, the channels and the types of elements and sums alone.
work_cut cut_problem(
        const search_facts &facts, const std::array<detail::axis_map, 3> &maps);

} // namespace gradnn::gpu::interpolation::whole
