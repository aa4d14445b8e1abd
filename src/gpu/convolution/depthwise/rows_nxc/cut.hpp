// Depthwise windows along W alone, in NXC: how the work of the two kernels is
// cut. See data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

/// Neighbouring columns that a thread takes at a time: a run.
constexpr int run_length = 16;
/// Threads of a block, and blocks that a multiprocessor's registers hold.
constexpr int block_threads = 128;
constexpr int resident_blocks(int taps) {
    return taps == 32 ? 3 : 4;
}
/// Taps that a thread holds at a time.
constexpr int taps_held(int kernel) {
    return kernel <= 16 ? 16 : 32;
}
/// Runs of a piece at most: the data kernel has a bit for each.
constexpr int longest_piece = 64;

/// Blocks of some channels and some pieces of rows (of written, or of dst), a
/// thread's each: `lanes` threads along the channels, `slots` along the pieces.
struct work_cut {
    static constexpr const char *takes
            = "NXC, windows of 9 points and more along W alone with strides "
              "and dilations of 1, 16 columns and more";
    int vector = 1; ///< channels of a thread
    int taps = 16; ///< that a thread holds at a time: 16 or 32
    int chunks = 1; ///< of so many taps
    int lanes = 1;
    int slots = 1;
    int channel_tiles = 1;
    int pieces = 1; ///< of a row
    int piece_runs = 1;
    int units = 1; ///< pieces of all rows
    int parts = 1; ///< blocks of a group of channels (weights: and a chunk)
};

// In cut.cpp.
/// Whether these kernels take the window.
bool takes(const problem_facts &);
/// Sums have the same order, with vectors or without. False also where there are too
/// many pieces or blocks.
bool cut(work_cut &, const problem_facts &, bool vectors);

// In data.cu and weights.cu.
launcher data_launcher(const launch_facts &, const work_cut &);
launcher weights_launcher(const launch_facts &, const work_cut &);

} // namespace gradnn::gpu::depthwise::rows_nxc
