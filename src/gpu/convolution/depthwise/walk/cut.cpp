// Depthwise, along H: which windows, and how the work is cut. Plain host
// arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/walk/cut.hpp"

namespace gradnn::gpu::depthwise::walk {

namespace {

/// How long the blocks of a walk take, a turn for each row or step.
struct block_turns {
    int64_t blocks = 1; ///< at a time
    /// Those of a multiprocessor share its time, so that `blocks` counts one of
    /// them; few do not fill it: a turn more.
    bool shared = false;
    /// What else a block takes, in rows: to load the weights, to add up sums.
    int load_rows = 0;
    int sum_rows = 8;

    /// Turns for a row of each of so many blocks.
    constexpr int64_t of(int64_t count) const {
        return ceil_div(count, blocks) + (shared ? 1 : 0);
    }
};

block_turns turns_of(const problem_facts &facts) {
    // Of 3x3x3 products take most of the time.
    if (facts.shape.axes[0].kernel > 1)
        return {.blocks = facts.multiprocessors,
                .shared = true,
                .load_rows = 3,
                .sum_rows = 4};
    const int size = facts.shape.axes[2].kernel;
    // About as many as the kernels' launch bounds ask of an SM (data.cu, weights.cu).
    const int resident = facts.sum_bytes() == 8
            ? f64_blocks(size, facts.of_weights())
            : size == 3 ? 4
                        : 3;
    return {.blocks = facts.multiprocessors * resident};
}

/// Groups of so many columns, and how many there are of them in one strip of all
/// depths, or of groups of depths, of all images.
int64_t cut_groups(work_cut &walk, const problem_shape &shape, int columns) {
    const window_axis &deep = shape.axes[0];
    walk.groups
            = static_cast<uint32_t>(ceil_div(shape.axes[2].written, columns));
    return int64_t {walk.groups}
    * ceil_div(deep.written, depths_of(deep.kernel)) * shape.images;
}

/// Cuts the steps of the data kernel into strips, of which each reads more rows than
/// it has.
bool cut_data(work_cut &walk, const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const int deep = shape.axes[0].kernel;
    const window_axis &down = shape.axes[1];
    const int columns
            = data_run(deep, down.kernel, walk.vector, facts.element_bytes());
    walk.steps = steps_of(shape);
    const int ahead = (down.kernel - 1) / down.stride;
    int64_t of_strip = cut_groups(walk, shape, columns);
    if (deep > 1) {
        walk.lanes = walk.channels_last ? lanes_of(shape, walk.vector) : 1;
        walk.channel_tiles = static_cast<uint32_t>(
                ceil_div(shape.channels, int64_t {walk.vector} * walk.lanes));
        of_strip *= int64_t {walk.lanes} * walk.channel_tiles;
    } else {
        of_strip *= shape.channels / walk.vector;
    }
    const block_turns turns = turns_of(facts);
    int64_t least = 0;
    for_each_cut(walk.steps.count, longest_strip, [&](int rows, int strips) {
        const int64_t blocks = ceil_div(of_strip * strips, walking_threads);
        const int64_t cost
                = turns.of(blocks) * (rows + ahead + turns.load_rows);
        if (least != 0 && cost >= least) return;
        least = cost;
        walk.strip_rows = rows;
        walk.strips = static_cast<uint32_t>(strips);
    });
    if (!fits(of_strip * walk.strips)) return false;
    walk.items = static_cast<uint32_t>(of_strip * walk.strips);
    return true;
}

/// The same of the rows of dst, and the units into parts.
bool cut_weights(work_cut &walk, const problem_facts &facts, int widest) {
    const problem_shape &shape = facts.shape;
    const int deep = shape.axes[0].kernel;
    const window_axis &down = shape.axes[1];
    const int columns = weights_run(deep, down.kernel, facts.element_bytes());
    const int width = columns * depths_of(deep);
    const int ahead = down.kernel - 1;
    const int64_t of_strip = cut_groups(walk, shape, columns);
    walk.lanes = walk.channels_last ? lanes_of(shape, widest) : 1;
    walk.slots = walking_threads / walk.lanes;
    const int64_t tiles
            = ceil_div(shape.channels, int64_t {widest} * walk.lanes);
    const block_turns turns = turns_of(facts);
    int64_t least = 0;
    int64_t parts = 1;
    for_each_cut(down.written, longest_strip, [&](int rows, int strips) {
        const int64_t units = of_strip * strips;
        const int64_t most = std::clamp<int64_t>(
                longest_f32_chain / (int64_t {rows} * width), 1,
                ceil_div(units, int64_t {walk.slots}));
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

/// 3x3x3: columns that threads may load and store together, of tensors that begin at
/// multiples of 16 bytes.
int columns_together(const problem_facts &facts) {
    const window_axis &along = facts.shape.axes[2];
    if (along.pad != usual_pad(along.kernel)) return 1;
    for (const int count : {4, 2})
        if (count * facts.element_bytes() <= 16
                && rows_of_read_divide(facts.shape, count)
                && rows_of_written_divide(facts.shape, count))
            return count;
    return 1;
}

} // namespace

bool takes(const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const window_axis &along = shape.axes[2];
    // The columns of a thread are 32-bit offsets apart.
    constexpr int64_t longest = INT32_MAX / 8;
    if (shape.read_strides[4] >= longest || shape.written_strides[4] >= longest)
        return false;
    if (shape.axes[0].kernel > 1) {
        for (const window_axis &axis : shape.axes)
            if (axis.kernel != 3 || axis.stride != 1 || axis.dilation != 1)
                return false;
        return !facts.channels_last || shape.axes[0].read > 1;
    }
    if (!window_is_usual(shape) || shape.axes[0].stride != 1) return false;
    if (!facts.channels_last)
        return facts.sum_bytes() == 4 && along.stride == 1
                && (facts.of_weights() || rows_are_vectors(facts));
    return along.stride == 1
            || (along.stride == 2 && shape.to_src
                    && (along.pad - usual_pad(along.kernel)) % 2 == 0);
}

bool rows_are_vectors(const problem_facts &facts) {
    const auto contiguous = [](const detail::tensor_view &tensor) {
        return tensor.dims[4] == 1 || tensor.strides[4] == 1;
    };
    return facts.shape.axes[0].kernel == 1
            && facts.shape.base == -(facts.shape.taps / 2)
            && contiguous(facts.problem.src) && contiguous(facts.problem.dst)
            && facts.both_divide(16 / facts.element_bytes(), 4);
}

bool cut(work_cut &walk, const problem_facts &facts, bool vectors) {
    if (!takes(facts)) return false;
    const int deep = facts.shape.axes[0].kernel;
    int widest = 1;
    walk.channels_last = facts.channels_last;
    if (facts.channels_last) {
        const int most = widest_vector(
                deep, facts.shape.axes[2].kernel, facts.element_bytes());
        if (facts.both_divide(most, 1)) widest = most;
    } else if (vectors && deep > 1) {
        walk.together = columns_together(facts);
    } else if (vectors && rows_are_vectors(facts)) {
        walk.together = static_cast<int>(16 / facts.element_bytes());
    }
    walk.vector = vectors ? widest : 1;
    return facts.of_weights() ? cut_weights(walk, facts, widest)
                              : cut_data(walk, facts);
}

} // namespace gradnn::gpu::depthwise::walk
