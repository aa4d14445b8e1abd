// The launch of the kernel of weights_sum.cuh.
#pragma once

#include <algorithm>

#include "gpu/convolution/launcher.hpp"
#include "gpu/convolution/weights_sum.cuh"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

/// Of partial sums that begin in the workspace.
template <typename Sum, typename Result>
launcher weights_sum_launcher(const char *name, const partial_weights &of) {
    constexpr int of_block = weights_sum_threads / weights_sum_rows;
    const int64_t blocks
            = std::min<int64_t>(ceil_div(of.count, of_block), 1 << 20);
    return [=](const tensor_pointers &at, const launch_stream &stream) {
        launch(name, convolution_weights_sum_kernel<Sum, Result>, blocks,
                weights_sum_threads, weights_sum_threads * sizeof(double),
                stream, at.workspace, at.weights, of);
    };
}

} // namespace gradnn::gpu
