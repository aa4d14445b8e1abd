// Loops of arithmetic in registers: what a GPU's units can do at most. Includes
// nothing of CUDA; a CPU-only build has this function too (absent.cpp).
#pragma once

#include <cstdint>

#include <gradnn/engine.hpp>

namespace gradnn::gpu {

enum class compute_loop {
    f32_fma, ///< fused multiplications and additions
    f64_fma,
    f64_tensor, ///< products of small matrices on tensor cores (mma.sync)
    tf32_tensor,
    bf16_tensor,
    f16_tensor,
};

/// Submits a loop that fills the GPU; returns its multiplications and
/// additions.
double compute_on(const stream &s, compute_loop loop, int64_t rounds);

} // namespace gradnn::gpu
