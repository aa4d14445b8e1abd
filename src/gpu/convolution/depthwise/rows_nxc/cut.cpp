// Depthwise windows along W alone, in NXC: which windows, and how the work is
// cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"
#include "gpu/device/rounding.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

/// Shorter windows and rows would leave most of what a thread holds idle.
constexpr int least_taps = 9;
constexpr int least_columns = run_length;
/// What starting a thread takes, and the end of a block, in tenths of a run.
constexpr int64_t start_cost = 8;
constexpr int64_t end_cost = 20;

/// Fewer than the kernels' 32-bit numbers hold.
bool fits(int64_t count) {
    return count < INT32_MAX / 2;
}

int64_t rows_of(const problem_shape &shape) {
    return shape.images * shape.axes[0].written * shape.axes[1].written;
}

/// All but the pieces.
void cut_channels(work_cut &cut, const problem_shape &shape, int widest) {
    cut.taps = taps_held(shape.axes[2].kernel);
    cut.chunks = ceil_div(shape.axes[2].kernel, cut.taps);
    cut.lanes = lanes_of(shape, widest);
    cut.slots = block_threads / cut.lanes;
    cut.channel_tiles = static_cast<int>(
            ceil_div(shape.channels, int64_t {cut.vector} * cut.lanes));
}

/// Calls body(runs, pieces) for pieces of a row of even length, the longest
/// first, of so many runs.
template <typename Body>
void for_each_piece(const problem_shape &shape, const Body &body) {
    const int runs = ceil_div(shape.axes[2].written, run_length);
    for (int size = std::min(runs, longest_piece); size > 0; --size) {
        const int pieces = ceil_div(runs, size);
        body(ceil_div(runs, pieces), pieces);
    }
}

} // namespace

bool takes(const problem_shape &shape) {
    const window_axis &along = shape.axes[2];
    // Columns are 32-bit offsets apart.
    return window_is_a_row(shape) && along.kernel >= least_taps
            && along.written >= least_columns
            && shape.read_strides[4] < INT32_MAX
            && shape.written_strides[4] < INT32_MAX;
}

bool cut_data(work_cut &cut, const problem_shape &shape, int widest,
        int64_t multiprocessors) {
    cut_channels(cut, shape, widest);
    const int64_t tiles
            = ceil_div(shape.channels, int64_t {widest} * cut.lanes);
    const int64_t resident = multiprocessors * resident_blocks(cut.taps);
    int64_t least = 0;
    for_each_piece(shape, [&](int runs, int pieces) {
        const int64_t units = rows_of(shape) * pieces;
        const int64_t parts = ceil_div(units, int64_t {cut.slots});
        const int64_t cost = ceil_div(parts * tiles, resident)
                * (int64_t {10} * runs + start_cost);
        // With `widest` channels a thread or one.
        if (!fits(units) || !fits(parts * tiles * widest)
                || (least != 0 && cost >= least))
            return;
        least = cost;
        cut.piece_runs = runs;
        cut.pieces = pieces;
        cut.units = static_cast<int>(units);
        cut.parts = static_cast<int>(parts);
    });
    return least != 0;
}

bool cut_weights(work_cut &cut, const problem_shape &shape, int widest,
        int64_t multiprocessors, int64_t longest_chain) {
    cut_channels(cut, shape, widest);
    const int64_t tiles = ceil_div(shape.channels, int64_t {widest} * cut.lanes)
            * cut.chunks;
    const int64_t resident = multiprocessors * resident_blocks(cut.taps);
    int64_t least = 0;
    for_each_piece(shape, [&](int runs, int pieces) {
        const int64_t units = rows_of(shape) * pieces;
        const int64_t all = ceil_div(units, int64_t {cut.slots});
        const int64_t most = std::clamp<int64_t>(
                longest_chain / (int64_t {runs} * run_length), 1, all);
        for (int64_t each = most; each > 0; --each) {
            const int64_t parts = ceil_div(all, each);
            const int64_t cost = ceil_div(parts * tiles, resident)
                    * (each * (int64_t {10} * runs + start_cost) + end_cost);
            if (!fits(units + parts * cut.slots)
                    || !fits(parts * tiles * widest)
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
