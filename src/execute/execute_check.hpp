// What execute refuses: wrong streams and tensors, null, misaligned or
// overlapping data.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "compile/executable.hpp"
#include "kernel/engine_impl.hpp"

namespace gradnn::detail {

/// An op of ours has at most 3 + 3 ports.
constexpr size_t max_ports = 16;

/// A pointer for each of an executable's ports.
using port_data = std::array<void *, max_ports>;

/// What stands behind a stream of the engine that a partition was compiled for.
stream_impl &checked_stream(const compiled_impl &compiled, stream &astream);

/// The data of tensors that fit to the ports, matched by their ids.
port_data checked_data(const compiled_impl &compiled,
        const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
        const engine_impl &device);
/// The same of pointers, one a port. `asked` says whether the device can reach
/// what they point at; null where the caller knows.
port_data checked_data(const compiled_impl &compiled,
        std::span<void *const> given, const engine_impl *asked);

/// The workspace within the caller's tensor.
void *checked_scratchpad(
        const compiled_impl &compiled, const tensor &scratchpad);

void check_workspace(const compiled_impl &compiled, const void *workspace,
        const engine_impl *asked);

/// Outputs may meet nothing but the input that they may replace.
void check_overlaps(const compiled_impl &compiled, const port_data &data);

} // namespace gradnn::detail
