// The kernels of sliding windows, by the form that their specification says.
#pragma once

#include "gpu/convolution/sliding/data.cuh"
#include "gpu/convolution/sliding/weights.cuh"
#include "gpu/convolution/sliding/weights_sum.cuh"

namespace gradnn::gpu::sliding {

template <data_specification s>
__device__ void slide_data(const storage<s.of.type> *read,
        const storage<s.of.type> *weights, storage<s.of.type> *written) {
    wait_and_let_later_work_start();
    if constexpr (s.cut.row_by_row && s.cut.staged == staging::none)
        data_row_by_row<s>(read, weights, written);
    else if constexpr (s.cut.staged == staging::none)
        data_of_thread<s>(read, weights, written);
    else
        data_of_planes<s>(read, weights, written);
}

} // namespace gradnn::gpu::sliding
