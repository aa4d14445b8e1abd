// A product of two matrices by oneDNN, to measure what the CPU's units for
// 16-bit types can do.
#pragma once

#include <functional>

#include <gradnn/tensor.hpp>

namespace gradnn::driver {

/// Computes the product on all threads and returns its multiplications and
/// additions. Empty where the CPU does not multiply f16 or bf16 itself, for
/// other types, and in a build without oneDNN.
std::function<double()> onednn_product(logical_tensor::data_type type);

} // namespace gradnn::driver
