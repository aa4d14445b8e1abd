// Depthwise windows along W alone, in NXC: which windows, and how the work is
// cut. Plain host arithmetic.
#include <algorithm>
#include <cstdint>

#include "gpu/convolution_depthwise_rows_nxc.hpp"
#include "gpu/rounding.hpp"

namespace gradnn::gpu {

namespace {

/// Shorter windows are left to the other kernels (measured on an H200).
constexpr int least_taps = 5;
constexpr int most_lanes = 32;
/// What a piece's first columns and the end of a block take, in columns.
constexpr int64_t start_cost = 16;
constexpr int64_t end_cost = 32;

/// Fewer than the kernels' 32-bit numbers hold.
bool fits(int64_t count) {
    return count < INT32_MAX / 2;
}

int64_t rows_of(const depthwise_shape &shape) {
    return shape.images * shape.axes[0].written * shape.axes[1].written;
}

/// All but the pieces.
void cut_channels(
        depthwise_rows_nxc &cut, const depthwise_shape &shape, int widest) {
    cut.taps = 8;
    while (cut.taps < shape.axes[2].kernel)
        cut.taps *= 2;
    const auto vectors
            = static_cast<int>(ceil_div(shape.channels, int64_t {widest}));
    cut.lanes = ceil_div(vectors, ceil_div(vectors, most_lanes));
    cut.slots = rows_nxc_threads / cut.lanes;
    cut.channel_tiles = static_cast<int>(
            ceil_div(shape.channels, int64_t {cut.vector} * cut.lanes));
}

/// Blocks that run at once, of as many channels as vectors of `widest` have.
int64_t resident_blocks(const depthwise_rows_nxc &cut, int widest,
        int64_t element_bytes, int64_t multiprocessors) {
    const int words = widest * (element_bytes == 8 ? 2 : 1);
    return multiprocessors * rows_nxc_resident(cut.taps, words);
}

/// Calls body(columns, pieces) for pieces of a row of even length, the longest
/// first.
template <typename Body>
void for_each_piece(const depthwise_shape &shape, const Body &body) {
    const int columns = shape.axes[2].written;
    const int least = ceil_div(columns, rows_nxc_longest_piece);
    const int most = std::min(ceil_div(columns, rows_nxc_group), 64 * least);
    for (int pieces = least; pieces <= most; ++pieces) {
        const int size = round_up(ceil_div(columns, pieces), rows_nxc_group);
        body(size, ceil_div(columns, size));
    }
}

} // namespace

bool rows_nxc_take(const depthwise_shape &shape, int64_t element_bytes) {
    for (const depthwise_axis *axis : {&shape.axes[0], &shape.axes[1]})
        if (axis->kernel != 1 || axis->stride != 1 || axis->pad != 0
                || axis->read != axis->written)
            return false;
    const depthwise_axis &along = shape.axes[2];
    // Columns are 32-bit offsets apart.
    return along.stride == 1 && along.dilation == 1
            && along.kernel >= least_taps
            && along.kernel <= rows_nxc_most_taps(element_bytes)
            && shape.read_strides[4] < INT32_MAX
            && shape.written_strides[4] < INT32_MAX;
}

int rows_nxc_widest(const depthwise_shape &shape, int64_t element_bytes) {
    return element_bytes < 8 && shape.axes[2].kernel <= 32 ? 2 : 1;
}

bool cut_rows_nxc(depthwise_rows_nxc &cut, const depthwise_shape &shape,
        int widest, int64_t element_bytes, int64_t multiprocessors) {
    cut_channels(cut, shape, widest);
    const int64_t tiles
            = ceil_div(shape.channels, int64_t {widest} * cut.lanes);
    const int64_t resident
            = resident_blocks(cut, widest, element_bytes, multiprocessors);
    int64_t least = 0;
    for_each_piece(shape, [&](int columns, int pieces) {
        const int64_t units = rows_of(shape) * pieces;
        const int64_t parts = ceil_div(units, int64_t {cut.slots});
        const int64_t cost
                = ceil_div(parts * tiles, resident) * (columns + start_cost);
        if (!fits(units) || !fits(parts * cut.channel_tiles)
                || (least != 0 && cost >= least))
            return;
        least = cost;
        cut.piece_columns = columns;
        cut.pieces = pieces;
        cut.units = static_cast<int>(units);
        cut.parts = static_cast<int>(parts);
    });
    return least != 0;
}

bool cut_rows_nxc_weights(depthwise_rows_nxc &cut, const depthwise_shape &shape,
        int widest, int64_t element_bytes, int64_t multiprocessors,
        int64_t longest_chain) {
    cut_channels(cut, shape, widest);
    const int64_t tiles
            = ceil_div(shape.channels, int64_t {widest} * cut.lanes);
    const int64_t resident
            = resident_blocks(cut, widest, element_bytes, multiprocessors);
    int64_t least = 0;
    for_each_piece(shape, [&](int columns, int pieces) {
        const int64_t units = rows_of(shape) * pieces;
        const int64_t all = ceil_div(units, int64_t {cut.slots});
        const int64_t most
                = std::clamp<int64_t>(longest_chain / columns, 1, all);
        for (int64_t each = most; each > 0; --each) {
            const int64_t parts = ceil_div(all, each);
            const int64_t cost = ceil_div(parts * tiles, resident)
                    * (each * (columns + start_cost) + end_cost);
            if (!fits(units + parts * cut.slots)
                    || !fits(parts * cut.channel_tiles)
                    || (least != 0 && cost >= least))
                continue;
            least = cost;
            cut.piece_columns = columns;
            cut.pieces = pieces;
            cut.units = static_cast<int>(units);
            cut.parts = static_cast<int>(parts);
        }
    });
    return least != 0;
}

} // namespace gradnn::gpu
