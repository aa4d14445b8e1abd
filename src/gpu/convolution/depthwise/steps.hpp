// Threads that walk along H, in global memory (walk/) or in shared memory (planes/).
#pragma once

#include "gpu/convolution/depthwise/shape.hpp"

namespace gradnn::gpu::depthwise {

/// Threads of a block that walk.
constexpr int walking_threads = 128;
/// Steps of a thread at most: the data kernels have a bit for each of them.
constexpr int longest_strip = 64;

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

data_steps steps_of(const problem_shape &);

} // namespace gradnn::gpu::depthwise
