// Computes a call by what was kept for it, without Python.
#pragma once

#include <array>

#include "torch/arguments.hpp"
#include "torch/plans.hpp"

namespace gradnn::torch_kernels {

using results = std::array<tensor, 3>;

/// By gradnn. False where something failed: nothing is written then that anyone
/// sees.
bool execute(const plan &how, const arguments &given, results &made);

} // namespace gradnn::torch_kernels
