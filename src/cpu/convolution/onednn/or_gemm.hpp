// Where convolution.gemm is faster than the best of oneDNN's implementations.
#pragma once

#include <cstdint>

#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/convolution/onednn/implementation.hpp"

namespace gradnn::cpu::onednn {

/// By its estimated cost, where it copies nothing and `best` does.
bool gemm_is_cheaper(
        const geometry &problem, const implementation &best, int64_t images);

/// By what was measured, in the problem's own type. `long_sums`: others than
/// `best` were refused because they add up too many products in one sum.
bool gemm_is_faster(
        const geometry &problem, const implementation &best, bool long_sums);

} // namespace gradnn::cpu::onednn
