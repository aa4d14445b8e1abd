// What a convolution by one of oneDNN's implementations is estimated to cost. The
// unit is one f32 operation of a dense convolution at full speed.
#pragma once

#include "cpu/convolution/onednn/geometry.hpp"
#include "cpu/convolution/onednn/implementation.hpp"

namespace gradnn::cpu::onednn {

/// A step's fixed price: its threads start and meet (4 us).
constexpr double step_cost = 2e6;

/// Whether oneDNN may use these instructions here.
bool cpu_has(dnnl::cpu_isa wanted);

/// Its work and the copies between the caller's layouts and its own.
double estimate(const geometry &problem, const implementation &found);

/// What it takes for the whole batch on one thread of a Zen 4 where channels are so
/// few that its calls count, which the estimate leaves out.
double nanoseconds(const geometry &problem, const implementation &found);

} // namespace gradnn::cpu::onednn
