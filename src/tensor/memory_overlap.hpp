// Whether two tensors in memory have bytes in common.
#pragma once

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

/// True unless the tensors are known to share no element: their byte ranges do
/// not meet, or they are slices of one tensor (equal types and strides, each
/// stride stepping over all smaller ones) that miss each other. Neither
/// allocates. Extents are in bytes, as logical_tensor::get_mem_size gives.
bool memory_overlaps(const logical_tensor &a, const void *a_data,
        size_t a_extent, const logical_tensor &b, const void *b_data,
        size_t b_extent);

} // namespace gradnn::detail
