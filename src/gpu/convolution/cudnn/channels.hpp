// How many channels cuDNN is told of. Plain host arithmetic, without CUDA.
#pragma once

#include <cstdint>

#include "kernel/problem.hpp"

namespace gradnn::gpu::cudnn {

struct channel_counts {
    int64_t src, dst;
};

/// Of a convolution of one group in 16 bits and NXC: both filled up with zeros to
/// multiples of 8, or both the caller's. `src_staged`, `dst_staged`: the tensor is
/// copied anyway.
channel_counts filled_channels(
        const detail::convolution_problem &, bool src_staged, bool dst_staged);

} // namespace gradnn::gpu::cudnn
