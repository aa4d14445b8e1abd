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

/// By PyTorch's own kernel, where that can be called from here. False where it
/// cannot be, or failed.
bool execute_native(const arguments &given, results &made);

/// Whether execute_native, in this thread, came back with the call that it was
/// made for. It does not try again then.
bool comes_back(const arguments &given);

} // namespace gradnn::torch_kernels
