// From ops whose tensors are laid out to an executable.
#pragma once

#include <memory>
#include <vector>

#include "compile/executable.hpp"
#include "compile/lowering.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::detail {

/// `tensors` are the ports, of which so many are inputs, and behind them the inner
/// tensors; `steps` are those of the ops that are lowered already.
std::shared_ptr<const executable> build(const compiled_impl &compiled,
        const std::vector<logical_tensor> &tensors, size_t input_count,
        const engine &e, const compile_options &options,
        std::vector<std::vector<lowered_step>> &steps);

} // namespace gradnn::detail
