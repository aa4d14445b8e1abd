// How convolution.gpu_few_channels cuts a problem. Host arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/convolution/few_channels/shape.hpp"
#include "kernel/problem.hpp"

namespace gradnn::gpu::few_channels {

/// Of a block, where the device allows so much: two of them fit a multiprocessor of
/// 228 KiB, as launch bounds ask.
constexpr int64_t most_shared_bytes = 96 << 10;

/// What the kernel of data is launched with; without blocks where there is no cut.
struct launch_grid {
    int64_t blocks = 0;
    int threads = 0;
    size_t shared_bytes = 0;
};

problem_shape shape_of(const detail::convolution_problem &);
/// Floats of the weights as the first kernel gathers them.
int64_t gathered_floats(const problem_shape &);
/// Whether there is one spatial axis, which the kernels of line.cu take.
bool is_line(const problem_shape &);
/// Along an axis of src: the v that it has, src + pad being v * stride + phase.
int all_cells_of(const window_axis &);

// Each sets what the shape says of its kernel, whose blocks may have so much shared memory.
launch_grid cut_tiles(problem_shape &, int64_t images, int64_t most_bytes);
launch_grid cut_lines(problem_shape &, int64_t images, int64_t multiprocessors,
        int64_t most_bytes);

} // namespace gradnn::gpu::few_channels
