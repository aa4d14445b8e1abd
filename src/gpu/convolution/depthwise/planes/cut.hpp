// Depthwise, planes in shared memory: how the work of the two kernels is cut. See
// data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/steps.hpp"

namespace gradnn::gpu::depthwise::planes {

/// NCX without gaps, windows of 3x3, 5x5 and 7x7 with strides of 1 or (of the
/// gradients) 2 and dilations of 1, rows that a block's threads cover: whole
/// planes, or bands of the rows of one, lie in shared memory as they do in the
/// tensors. Threads walk along H there, each of some neighbouring columns and rows
/// of what they compute (of the weights gradient, of dst).
struct work_cut {
    static constexpr const char *takes
            = "NCX without gaps, windows of 3x3, 5x5 and 7x7 on planes with "
              "dilations of 1 and strides of 1 or (gradients) 2, rows that "
              "fit in shared memory";
    int planes = 1; ///< of a block, neighbours in memory
    data_steps steps; ///< of the data kernel
    /// The steps, or the rows of dst, are cut into bands, one for each block; there
    /// is one band where planes > 1.
    int bands = 1;
    int band_steps = 1;
    int strips = 1; ///< of a band, a thread's each
    int strip_steps = 1;
    int groups = 1; ///< of neighbouring columns
    // Threads from one of these to the next: the order in which neighbouring
    // threads meet the fewest bank conflicts.
    int plane_distance = 1;
    int strip_distance = 1;
    int group_distance = 1;
    int threads = 32;
    int64_t tiles = 1; ///< blocks of a band: groups of planes, or of channels
    int image_parts = 1; ///< weights: a block has every image_parts-th image
    size_t read_bytes = 0; ///< of shared memory, as the next two
    size_t written_bytes = 0;
    size_t shared_bytes = 0;

    __host__ __device__ constexpr int64_t parts() const {
        return int64_t {image_parts} * bands;
    }
};

/// Threads may load so many elements before and after what a block holds in shared
/// memory; what they load there has no effect.
constexpr int slack_elements = 16;
/// Blocks of walking_threads that a multiprocessor's registers hold.
constexpr int resident_blocks(int size, int64_t element_bytes) {
    if (size == 3) return 5;
    return (size == 5 ? 4 : 3) - (element_bytes == 8 ? 1 : 0);
}
/// Columns of a thread of the data kernel, and of the weights'.
__host__ __device__ constexpr int data_run(int64_t element_bytes) {
    return element_bytes == 8 ? 4 : 8;
}
constexpr int weights_run(int size, int64_t element_bytes) {
    return element_bytes == 8 ? 4 : size == 3 ? 8 : 4;
}
/// The first column that a thread loads of read (`data`) or of src, modulo 2,
/// with a padding of usual_pad.
__host__ __device__ constexpr int lead_of(int size, int stride, bool data) {
    return data && stride == 2
            ? (size - 1 - usual_pad(size) - odd_taps(size, 2)) / 2 % 2
            : usual_pad(size) % 2;
}

// In cut.cpp.
/// Of the first column of a thread, which is to have the remainder of lead_of: see
/// rows_are_wide.
constexpr int wide_pads(const problem_shape &shape, bool of_weights) {
    return shape.axes[2].stride == 2 && !of_weights ? 4 : 2;
}
/// False also where a row does not fit.
bool cut(work_cut &, const problem_facts &);

// In data.cu and weights.cu.
launcher data_launcher(const launch_facts &, const work_cut &);
launcher weights_launcher(const launch_facts &, const work_cut &);

} // namespace gradnn::gpu::depthwise::planes
