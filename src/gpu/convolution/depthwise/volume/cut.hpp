// Depthwise windows of 3x3x3: how the work of the two kernels is cut. See
// data.cu and weights.cu.
#pragma once

#include "gpu/convolution/depthwise/walk/cut.hpp"

namespace gradnn::gpu::depthwise::volume {

constexpr int window_size = 3;
/// Neighbouring columns and depths of a thread, of written or dst.
constexpr int strip_columns = 4;
constexpr int strip_depths = 2;
/// Channels of a thread at most: what its registers hold.
constexpr int widest_vector(int64_t element_bytes) {
    return element_bytes == 2 ? 2 : 1;
}

// In cut.cpp.
/// Whether the kernels take the window: 3x3x3, strides and dilations of 1; in
/// NXC not where read is one slice, for which other kernels are faster.
bool takes(const problem_shape &, bool channels_last);
/// NCX: columns that threads may load and store together, of tensors that begin at
/// multiples of 16 bytes.
int columns_together(const problem_shape &, int64_t element_bytes);
/// Cuts the work of the data kernel; vector, together and channels_last are
/// set. False where the tensors are too large.
bool cut_data(walk::work_cut &, const problem_shape &, int64_t multiprocessors);
/// Of the weights gradient, as walk::cut_weights does.
bool cut_weights(walk::work_cut &, const problem_shape &, int widest,
        int64_t multiprocessors, int64_t longest_chain);

// In data.cu and weights.cu.
void launch_data(const execution &, const walk::work_cut &);
void launch_weights(const execution &, const walk::work_cut &);

} // namespace gradnn::gpu::depthwise::volume
