// Depthwise, along H: how the work of the two kernels is cut. See
// data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/shape.hpp"

namespace gradnn::gpu::depthwise {
struct problem_facts;
}

namespace gradnn::gpu::depthwise::walk {

/// Threads of a block.
constexpr int block_threads = 128;

/// How threads of the data kernels walk along H: as the gradient of src does, from
/// the last row to the first, so that the taps come in ascending order. In the
/// forward direction, whose stride is 1, rows are mirrored. Step y reads row y and
/// completes written rows y * stride + size - stride - pad and on, `stride` of
/// them.
struct data_steps {
    int top = 0; ///< y of the first step that completes a row of written
    int count = 1; ///< of such steps
    int pad = 0;
};

/// Windows of 3x3, 5x5 and 7x7 with dilations of 1 and strides of 1, or 2 in the
/// gradient of src of NXC: threads that walk along H, each of some channels,
/// columns and rows of written. And windows of 3x3x3, whose threads have some
/// depths too (convolution/depthwise/volume/cut.hpp).
struct work_cut {
    bool channels_last = false;
    /// NCX: rows are whole vectors, and the window's middle column is the
    /// written one.
    bool dense = false;
    int together = 1; ///< 3x3x3, NCX: columns that are loaded together
    int vector = 1; ///< channels; 1 in NCX
    int sum_bytes = 4;
    uint32_t groups = 1; ///< of neighbouring columns
    data_steps steps; ///< of the data kernel
    uint32_t strips = 1; ///< of neighbouring rows, or steps
    int strip_rows = 1;
    uint32_t items = 1; ///< threads of the data kernel
    // The weights gradient, and channel_tiles and lanes of the data kernel of
    // 3x3x3 too. A thread takes every so manyeth unit, a strip of a group.
    uint32_t units = 1;
    uint32_t parts = 1; ///< blocks with the same channels
    uint32_t channel_tiles = 1;
    int lanes = 1; ///< neighbouring threads along the channels; 1 in NCX
    int slots = 1; ///< threads of a block with the same channels
};

/// How long the blocks of such a walk take, a turn for each row or step.
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
        return (count + blocks - 1) / blocks + (shared ? 1 : 0);
    }
};

/// A thread of the data kernel has a bit for each step of its strip.
constexpr int longest_strip = 64;

/// Channels of a thread at most, and its columns: what its registers hold.
constexpr int widest_vector(int size, int64_t sum_bytes = 4) {
    return size == 7 || sum_bytes == 8 ? 1 : 2;
}
constexpr int data_run(int size, int vector, int64_t sum_bytes) {
    const bool few = sum_bytes == 8 ? size > 3 : size == 5 && vector == 2;
    return few ? 4 : 8;
}
/// The same for all vectors, and so the order of the sums.
constexpr int weights_run(int size, int64_t sum_bytes) {
    return size == 3 ? 8 : size == 7 && sum_bytes == 8 ? 3 : 4;
}
/// Blocks of block_threads that a multiprocessor's registers hold, of f64.
constexpr int f64_blocks(int size, bool of_weights) {
    return of_weights || size == 7 ? 2 : size == 5 ? 3 : 4;
}

// In cut.cpp.
data_steps steps_of(const problem_shape &);
/// Cuts `rows` rows, or steps, into strips, each of which takes `ahead` more. A
/// strip of all planes is so many threads. False where there are too many.
bool cut_strips(
        work_cut &, int rows, int ahead, int64_t of_strip, const block_turns &);
/// The same of the weights gradient, and its units into parts; lanes is set. A
/// strip of all planes is so many units, of which a row is `width` elements.
bool cut_units(work_cut &, const problem_shape &, int widest, int width,
        int64_t of_strip, const block_turns &, int64_t longest_chain);
/// Whether the kernels that walk along H take the window, of some layout.
bool takes(const problem_shape &);
/// Cuts the work of the data kernel; vector, dense, sum_bytes and channels_last
/// are set. False where the tensors are too large.
bool cut_data(work_cut &, const problem_shape &, int64_t multiprocessors);
/// Of the weights gradient, whose sums are in the order of vectors of `widest`
/// channels whatever `vector` is, and in chains of at most so many terms.
bool cut_weights(work_cut &, const problem_shape &, int widest,
        int64_t multiprocessors, int64_t longest_chain);

// In plan.cpp.
/// Whether they take the window in the layout and types that it has.
bool takes(const problem_facts &);
/// NCX: rows of vectors of 16 bytes, that the walk loads and stores together.
bool rows_are_vectors(const problem_facts &);

// In data.cu and weights.cu, of f64 for NXC alone.
void launch_data(const execution &, const work_cut &);
void launch_weights(const execution &, const work_cut &);

} // namespace gradnn::gpu::depthwise::walk
