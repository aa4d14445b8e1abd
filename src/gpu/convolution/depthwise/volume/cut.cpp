// Depthwise, 3x3x3: which windows, and how the work is cut. Plain host
// arithmetic.
#include <cstdint>

#include "gpu/convolution/depthwise/volume/cut.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::depthwise::volume {

namespace {

/// Groups of columns, and how many there are of them and of groups of depths in
/// one strip of all images.
int64_t cut_groups(walk::work_cut &walk, const problem_shape &shape) {
    const int depth_groups = ceil_div(shape.axes[0].written, strip_depths);
    walk.groups = static_cast<uint32_t>(
            ceil_div(shape.axes[2].written, strip_columns));
    return int64_t {walk.groups} * depth_groups * shape.images;
}

/// Products take most of the time: blocks of a multiprocessor share it.
walk::block_turns turns_of(int64_t multiprocessors) {
    return {.blocks = multiprocessors,
            .shared = true,
            .load_rows = 3,
            .sum_rows = 4};
}

} // namespace

bool takes(const problem_shape &shape, bool channels_last) {
    if (channels_last && shape.axes[0].read == 1) return false;
    for (const window_axis &axis : shape.axes)
        if (axis.kernel != window_size || axis.stride != 1
                || axis.dilation != 1)
            return false;
    // The columns of a thread are 32-bit offsets apart.
    constexpr int64_t longest = INT32_MAX / 8;
    return shape.read_strides[4] < longest
            && shape.written_strides[4] < longest;
}

int columns_together(const problem_shape &shape, int64_t element_bytes) {
    // The window's middle column is the written one.
    if (shape.axes[2].pad != usual_pad(window_size)) return 1;
    for (const int count : {strip_columns, 2})
        if (count * element_bytes <= 16 && rows_of_read_divide(shape, count)
                && rows_of_written_divide(shape, count))
            return count;
    return 1;
}

bool cut_data(walk::work_cut &walk, const problem_shape &shape,
        int64_t multiprocessors) {
    walk.steps = walk::steps_of(shape);
    walk.lanes = walk.channels_last ? lanes_of(shape, walk.vector) : 1;
    walk.channel_tiles = static_cast<uint32_t>(
            ceil_div(shape.channels, int64_t {walk.vector} * walk.lanes));
    const int64_t of_strip
            = cut_groups(walk, shape) * walk.lanes * walk.channel_tiles;
    return walk::cut_strips(walk, walk.steps.count, window_size - 1, of_strip,
            turns_of(multiprocessors));
}

bool cut_weights(walk::work_cut &walk, const problem_shape &shape, int widest,
        int64_t multiprocessors, int64_t longest_chain) {
    walk.lanes = walk.channels_last ? lanes_of(shape, widest) : 1;
    return walk::cut_units(walk, shape, widest, strip_columns * strip_depths,
            cut_groups(walk, shape), turns_of(multiprocessors), longest_chain);
}

} // namespace gradnn::gpu::depthwise::volume
