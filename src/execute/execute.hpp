// Executing other than by compiled_partition::execute.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <gradnn/graph.hpp>

namespace gradnn::detail {

struct compiled_impl;
struct stream_impl;

/// Whether execute asks the engine if the device can reach what addresses point
/// at (two calls of CUDA for each), or the caller knows.
enum class addresses { asked, known };

/// Executes on a data pointer for each port of the executable, with the
/// caller's workspace. The stream is of the engine that it was compiled for.
void execute_pointers(const compiled_impl &compiled, stream_impl &stream,
        std::span<void *const> data, void *workspace,
        addresses of_data = addresses::asked);

/// For measurements: compiled_partition::execute, of one of its steps alone: get_info().steps
/// names them in their order. The step may read what earlier steps left in the
/// stream's workspace, so its output is right only where all steps before it
/// were executed on this stream, with the same tensors and nothing between.
void execute_step(const compiled_partition &compiled, size_t step,
        stream &astream, const std::vector<tensor> &inputs,
        const std::vector<tensor> &outputs);

} // namespace gradnn::detail
