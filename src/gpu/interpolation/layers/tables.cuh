// Tables in global memory that the kernel of interpolation.gpu_layers reads.
#pragma once

#include "gpu/interpolation/layers/cut.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::layers {

template <typename Sum>
struct kernel_tables {
    const line_row<Sum> *layers = nullptr;
    const line_reach *reach = nullptr;
    const line_column *columns = nullptr;
    const Sum *column_weights = nullptr;
    const dst_range *column_spans = nullptr; ///< of diff_dst, by column tile
    const line_column *rows = nullptr;
    const Sum *row_weights = nullptr;
    const dst_range *row_spans = nullptr; ///< of diff_dst, by row tile
};

} // namespace gradnn::gpu::interpolation::layers
