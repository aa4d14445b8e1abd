// Depthwise, along H: which windows, and how the work is cut. Plain host
// arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/walk/cut.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::depthwise::walk {

namespace {

/// Blocks of a multiprocessor, as the estimate counts them.
int64_t resident_blocks(int size, const work_cut &walk, bool of_weights) {
    if (walk.sum_bytes == 8) return f64_blocks(size, of_weights);
    return size == 3 ? 4 : 3;
}

bool fits(int64_t count) {
    return count < INT32_MAX;
}

/// Calls body(rows, strips) for strips of even height, the highest first, of so
/// many rows. Each strip reads more rows than it has.
template <typename Body>
void for_each_strip(int rows, const Body &body) {
    for (int height = std::min(rows, longest_strip); height > 0; --height) {
        const int strips = ceil_div(rows, height);
        body(ceil_div(rows, strips), strips);
    }
}

/// Groups of so many columns, and how many there are of them in one strip of
/// all planes.
int64_t cut_groups(work_cut &walk, const problem_shape &shape, int columns) {
    walk.groups
            = static_cast<uint32_t>(ceil_div(shape.axes[2].written, columns));
    return int64_t {walk.groups} * shape.axes[0].written * shape.images;
}

} // namespace

data_steps steps_of(const problem_shape &shape) {
    const window_axis &down = shape.axes[1];
    const int64_t completed = down.kernel - down.stride;
    const int64_t pad = shape.to_src
            ? int64_t {down.pad}
            : int64_t {down.pad} + down.read - down.written;
    const int64_t bottom = -floor_div(down.kernel - 1 - pad, down.stride);
    const int64_t top
            = floor_div(pad + down.written - 1 - completed, down.stride);
    return {static_cast<int>(top), static_cast<int>(top - bottom + 1),
            static_cast<int>(pad)};
}

bool takes(const problem_shape &shape) {
    if (!window_is_usual(shape) || shape.axes[0].stride != 1) return false;
    const window_axis &along = shape.axes[2];
    const bool strided = along.stride == 2 && shape.to_src
            && (along.pad - usual_pad(along.kernel)) % 2 == 0;
    // The columns of a thread are 32-bit offsets apart.
    constexpr int64_t longest = INT32_MAX / 8;
    return (along.stride == 1 || strided) && shape.read_strides[4] < longest
            && shape.written_strides[4] < longest;
}

bool cut_strips(work_cut &walk, int rows, int ahead, int64_t of_strip,
        const block_turns &turns) {
    int64_t least = 0;
    for_each_strip(rows, [&](int height, int strips) {
        const int64_t blocks = ceil_div(of_strip * strips, block_threads);
        const int64_t cost
                = turns.of(blocks) * (height + ahead + turns.load_rows);
        if (least != 0 && cost >= least) return;
        least = cost;
        walk.strip_rows = height;
        walk.strips = static_cast<uint32_t>(strips);
    });
    if (!fits(of_strip * walk.strips)) return false;
    walk.items = static_cast<uint32_t>(of_strip * walk.strips);
    return true;
}

bool cut_units(work_cut &walk, const problem_shape &shape, int widest,
        int width, int64_t of_strip, const block_turns &turns,
        int64_t longest_chain) {
    walk.slots = block_threads / walk.lanes;
    const int64_t tiles
            = ceil_div(shape.channels, int64_t {widest} * walk.lanes);
    const int ahead = shape.axes[1].kernel - 1;
    int64_t least = 0;
    int64_t parts = 1;
    for_each_strip(shape.axes[1].written, [&](int rows, int strips) {
        const int64_t units = of_strip * strips;
        const int64_t most
                = std::clamp<int64_t>(longest_chain / (int64_t {rows} * width),
                        1, ceil_div(units, int64_t {walk.slots}));
        for (int64_t each = most; each > 0; --each) {
            const int64_t blocks = ceil_div(units, each * walk.slots);
            const int64_t cost = turns.of(blocks * tiles)
                    * (each * (rows + ahead) + turns.sum_rows);
            if (least != 0 && cost >= least) continue;
            least = cost;
            parts = blocks;
            walk.strip_rows = rows;
            walk.strips = static_cast<uint32_t>(strips);
        }
    });
    const int64_t units = of_strip * walk.strips;
    walk.channel_tiles = static_cast<uint32_t>(
            ceil_div(shape.channels, int64_t {walk.vector} * walk.lanes));
    if (!fits(units + parts * walk.slots) || !fits(parts * walk.channel_tiles))
        return false;
    walk.units = static_cast<uint32_t>(units);
    walk.parts = static_cast<uint32_t>(parts);
    return true;
}

bool cut_data(
        work_cut &walk, const problem_shape &shape, int64_t multiprocessors) {
    const int size = shape.axes[2].kernel;
    const int columns = data_run(size, walk.vector, walk.sum_bytes);
    walk.steps = steps_of(shape);
    const int64_t of_strip
            = cut_groups(walk, shape, columns) * (shape.channels / walk.vector);
    return cut_strips(walk, walk.steps.count, (size - 1) / shape.axes[1].stride,
            of_strip, {multiprocessors * resident_blocks(size, walk, false)});
}

bool cut_weights(work_cut &walk, const problem_shape &shape, int widest,
        int64_t multiprocessors, int64_t longest_chain) {
    const int size = shape.axes[2].kernel;
    walk.lanes = walk.channels_last ? lanes_of(shape, widest) : 1;
    const int columns = weights_run(size, walk.sum_bytes);
    return cut_units(walk, shape, widest, columns,
            cut_groups(walk, shape, columns),
            {multiprocessors * resident_blocks(size, walk, true)},
            longest_chain);
}

} // namespace gradnn::gpu::depthwise::walk
