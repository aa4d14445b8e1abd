// Depthwise, along H: how the work of the two kernels is cut. See
// data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/steps.hpp"

namespace gradnn::gpu::depthwise::walk {

/// Windows of 3x3, 5x5 and 7x7 with dilations of 1 and strides of 1, or 2 in the
/// gradient of src of NXC: threads that walk along H, each of some channels,
/// columns and rows of written. And windows of 3x3x3, whose threads have some
/// depths too.
struct work_cut {
    static constexpr const char *takes
            = "windows of 3x3, 5x5 and 7x7 with dilations of 1: f64 in NXC "
              "alone, NXC with strides of 1 or (gradient of src) 2, NCX with "
              "strides of 1 and, of data, rows that are whole vectors of 16 "
              "bytes; windows of 3x3x3 with strides and dilations of 1, in "
              "NXC of more than one slice";
    bool channels_last = false;
    /// NCX: columns that are loaded together, where the window's middle column is
    /// the written one; else 1.
    int together = 1;
    int vector = 1; ///< channels; 1 in NCX
    uint32_t groups = 1; ///< of neighbouring columns
    data_steps steps; ///< of the data kernel
    uint32_t strips = 1; ///< of neighbouring rows, or steps
    int strip_rows = 1;
    uint32_t items = 1; ///< threads of the data kernel
    // The weights gradient, and channel_tiles and lanes of the data kernel of
    // 3x3x3 too. A unit is a strip of a group; n threads share the units, and
    // each takes every n-th.
    uint32_t units = 1;
    uint32_t parts = 1; ///< blocks with the same channels
    uint32_t channel_tiles = 1;
    int lanes = 1; ///< neighbouring threads along the channels; 1 in NCX
    int slots = 1; ///< threads of a block with the same channels
};

/// Neighbouring depths of a thread, of written or dst, with so many taps along D.
__host__ __device__ constexpr int depths_of(int deep) {
    return deep == 1 ? 1 : 2;
}
/// Channels of a thread at most, and its columns: what its registers hold.
constexpr int widest_vector(int deep, int size, int64_t element_bytes) {
    if (deep > 1) return element_bytes == 2 ? 2 : 1;
    return size == 7 || element_bytes == 8 ? 1 : 2;
}
constexpr int data_run(int deep, int size, int vector, int64_t element_bytes) {
    const bool few = element_bytes == 8 ? size > 3 : size == 5 && vector == 2;
    return deep > 1 || few ? 4 : 8;
}
/// The same for all vectors, and so the order of the sums.
constexpr int weights_run(int deep, int size, int64_t element_bytes) {
    if (deep > 1) return 4;
    return size == 3 ? 8 : size == 7 && element_bytes == 8 ? 3 : 4;
}
/// Blocks of walking_threads that a multiprocessor's registers hold, of f64.
constexpr int f64_blocks(int size, bool of_weights) {
    return of_weights || size == 7 ? 2 : size == 5 ? 3 : 4;
}

// In cut.cpp.
/// Whether these kernels take the window in the layout and types that it has. 3x3x3
/// in NXC not where read is one slice, for which other kernels are faster.
bool takes(const problem_facts &);
/// NCX, one depth: rows of vectors of 16 bytes, that the walk loads and stores
/// together.
bool rows_are_vectors(const problem_facts &);
/// False also where the tensors are too large. The sums of the weights are in the
/// order of the widest vectors whatever `vectors` are.
bool cut(work_cut &, const problem_facts &, bool vectors);

// In data.cu and weights.cu, of f64 and one depth for NXC alone.
launcher data_launcher(const launch_facts &, const work_cut &);
launcher weights_launcher(const launch_facts &, const work_cut &);

} // namespace gradnn::gpu::depthwise::walk
