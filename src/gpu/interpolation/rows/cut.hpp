// How interpolation.gpu_rows cuts a problem. Host arithmetic; the kernel reads its
// result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#ifdef __CUDACC__
#define GRADNN_HOST_DEVICE __host__ __device__
#else
#define GRADNN_HOST_DEVICE
#endif

namespace gradnn::gpu::interpolation::rows {

/// Rows have room in shared memory, all but one of them on their way.
constexpr int stages = 4;
/// Of a block.
constexpr int most_threads = 256;
/// Of an element of diff_src: the kernels hold so many.
constexpr int most_taps = 16;

/// Elements of diff_src that a thread has in a line: their weights stay in 32
/// registers.
GRADNN_HOST_DEVICE constexpr int outputs_of_thread(int taps, int sum_bytes) {
    const int fitting = 128 / (taps * sum_bytes);
    return fitting < 1 ? 1 : fitting < 8 ? fitting : 8;
}

/// Both tensors are rows, each of which is resampled by itself: so many positions
/// of `inner` neighbouring elements. A line is one row, or several short ones side
/// by side. A tile is a part of a line's outputs. Pitches in elements.
struct work_cut {
    int64_t rows = 1;
    int64_t dst_pitch = 0; ///< from row to row
    int64_t src_pitch = 0;
    int64_t dst_elements
            = 1; ///< from the tensor's first to the end of its last
    int64_t lines = 1;
    int64_t run_lines = 1; ///< that a block goes through
    int32_t dst_row = 1; ///< elements
    int32_t src_row = 1;
    int32_t inner = 1;
    int32_t line_rows = 1;
    int32_t tiles = 1; ///< of a line
    int32_t tile_outputs = 1;
    int32_t stage_bytes = 16;
    int32_t lets_start = 0; ///< let_later_work_start
};

/// Taps of the smallest kernel that has room for so many.
int taps_that_hold(int64_t count);

struct tile_choice {
    work_cut cut;
    int threads = 0; ///< of a block; 0: there is no cut
};

/// Cuts lines and tiles so that rows fit in `most_stage_bytes` and tiles do not read
/// most of them twice. `first` is of each position, as in padded_taps.
tile_choice choose_tiles(const work_cut &problem,
        std::span<const int32_t> first, int taps, int sum_bytes,
        int element_bytes, int64_t most_stage_bytes);

/// Cuts the lines into runs, for so many blocks at a time; returns the blocks.
int64_t cut_runs(work_cut &cut, int64_t resident);

} // namespace gradnn::gpu::interpolation::rows

#undef GRADNN_HOST_DEVICE
