// Depthwise windows along W alone, in NXC: how the work of the two kernels is
// cut. See convolution_depthwise_rows_nxc_data.cu and _weights.cu.
#pragma once

#include "gpu/convolution_depthwise.hpp"

namespace gradnn::gpu {

constexpr int rows_nxc_threads = 128; ///< of a block
/// Threads ask whether their piece has ended after every so many columns.
constexpr int rows_nxc_group = 8;
/// Columns of a piece at most: the data kernel has a bit for every so many.
constexpr int rows_nxc_bit_columns = 16;
constexpr int rows_nxc_longest_piece = 64 * rows_nxc_bit_columns;
/// Of the window.
constexpr int rows_nxc_most_taps(int64_t element_bytes) {
    return element_bytes == 8 ? 32 : 64;
}
/// Blocks that a multiprocessor's registers hold, of threads that have so many
/// taps and 32-bit words a column.
constexpr int rows_nxc_resident(int taps, int words) {
    return taps * words >= 64 ? 2 : taps * words >= 32 ? 4 : 6;
}

/// Blocks of some channels and some pieces of rows (of written, or of dst), a
/// thread's each: `lanes` threads along the channels, `slots` along the pieces.
struct depthwise_rows_nxc {
    int vector = 1; ///< channels of a thread
    int taps = 8; ///< that a thread holds: 8, 16, 32 or, of one channel, 64
    int lanes = 1;
    int slots = 1;
    int channel_tiles = 1;
    int pieces = 1; ///< of a row
    int piece_columns = 1; ///< a multiple of rows_nxc_group
    int units = 1; ///< pieces of all rows
    int parts = 1; ///< blocks of a group of channels
};

// In convolution_depthwise_rows_nxc.cpp.
/// Whether these kernels take the window and are faster than the others.
bool rows_nxc_take(const depthwise_shape &, int64_t element_bytes);
/// Channels of a thread, where vectors of so many may be loaded.
int rows_nxc_widest(const depthwise_shape &, int64_t element_bytes);
/// Cut the work of either kernel; `vector` is set, to `widest` or to 1: sums
/// have the same order. False where there are too many pieces or blocks.
bool cut_rows_nxc(depthwise_rows_nxc &, const depthwise_shape &, int widest,
        int64_t element_bytes, int64_t multiprocessors);
bool cut_rows_nxc_weights(depthwise_rows_nxc &, const depthwise_shape &,
        int widest, int64_t element_bytes, int64_t multiprocessors,
        int64_t longest_chain);

void launch_depthwise_rows_nxc_data(detail::data_type type,
        const depthwise_shape &, const depthwise_rows_nxc &,
        const depthwise_pointers &, const launch_stream &);
/// Leaves sums[weight][part] in the workspace, as its siblings.
void launch_depthwise_rows_nxc_weights(detail::data_type type,
        const depthwise_shape &, const depthwise_rows_nxc &,
        const depthwise_pointers &, const launch_stream &);

} // namespace gradnn::gpu
