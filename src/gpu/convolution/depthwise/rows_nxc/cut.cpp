// Depthwise windows along W alone, in NXC: which windows, and how the work is
// cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

/// Shorter windows and rows would leave most of what a thread holds idle.
constexpr int least_taps = 9;
constexpr int least_columns = run_length;
/// What starting a thread takes, and the end of a block, in tenths of a run.
constexpr int64_t start_cost = 8;
constexpr int64_t end_cost = 20;

/// Fewer than the kernels' 32-bit numbers hold.
bool has_room(int64_t count) {
    return count < INT32_MAX / 2;
}

} // namespace

bool takes(const problem_facts &facts) {
    const problem_shape &shape = facts.shape;
    const window_axis &along = shape.axes[2];
    // Columns are 32-bit offsets apart.
    return facts.channels_last && window_is_a_row(shape)
            && along.kernel >= least_taps && along.written >= least_columns
            && shape.read_strides[4] < INT32_MAX
            && shape.written_strides[4] < INT32_MAX;
}

bool cut(work_cut &cut, const problem_facts &facts, bool vectors) {
    if (!takes(facts)) return false;
    const problem_shape &shape = facts.shape;
    const window_axis &along = shape.axes[2];
    const bool of_weights = facts.of_weights();
    const int widest
            = facts.sum_bytes() == 4 && facts.both_divide(2, 1) ? 2 : 1;
    cut.vector = vectors ? widest : 1;
    cut.taps = taps_held(along.kernel);
    cut.chunks = ceil_div(along.kernel, cut.taps);
    cut.lanes = lanes_of(shape, widest);
    cut.slots = block_threads / cut.lanes;
    cut.channel_tiles = static_cast<int>(
            ceil_div(shape.channels, int64_t {cut.vector} * cut.lanes));
    const int64_t tiles = ceil_div(shape.channels, int64_t {widest} * cut.lanes)
            * (of_weights ? cut.chunks : 1);
    const int64_t rows
            = shape.images * shape.axes[0].written * shape.axes[1].written;
    const int64_t resident = facts.multiprocessors * resident_blocks(cut.taps);
    int64_t least = 0;
    for_each_cut(ceil_div(along.written, run_length), longest_piece,
            [&](int runs, int pieces) {
                const int64_t units = rows * pieces;
                const int64_t all = ceil_div(units, int64_t {cut.slots});
                // A thread of data has one piece.
                const int64_t most = of_weights
                        ? std::clamp<int64_t>(longest_f32_chain
                                        / (int64_t {runs} * run_length),
                                1, all)
                        : 1;
                for (int64_t each = most; each > 0; --each) {
                    const int64_t parts = ceil_div(all, each);
                    const int64_t cost = ceil_div(parts * tiles, resident)
                            * (each * (int64_t {10} * runs + start_cost)
                                    + (of_weights ? end_cost : 0));
                    // With `widest` channels a thread or one.
                    if (!has_room(units + (of_weights ? parts * cut.slots : 0))
                            || !has_room(parts * tiles * widest)
                            || (least != 0 && cost >= least))
                        continue;
                    least = cost;
                    cut.piece_runs = runs;
                    cut.pieces = pieces;
                    cut.units = static_cast<int>(units);
                    cut.parts = static_cast<int>(parts);
                }
            });
    return least != 0;
}

} // namespace gradnn::gpu::depthwise::rows_nxc
