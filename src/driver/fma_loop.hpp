// A loop of multiplications and additions in registers: what the CPU's vector
// units can do at most.
#pragma once

#include <cstdint>
#include <string>

#include <gradnn/tensor.hpp>

namespace gradnn::driver {

/// Multiplies and adds f32 or f64 on all threads, `rounds` times each; returns
/// multiplications and additions, all threads together.
double run_fma_loop(logical_tensor::data_type type, int64_t rounds);

/// The instruction set that it runs on, as Highway calls it.
std::string fma_loop_target();

} // namespace gradnn::driver
