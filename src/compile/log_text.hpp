// What log lines say of ops, tensors and compiled partitions.
#pragma once

#include <span>
#include <string>

#include <gradnn/graph.hpp>

#include "base/log.hpp"

namespace gradnn::detail {

struct checked_op;
struct compiled_impl;
struct executable_step;

/// "cpu"; "gpu:0", the index being that of the device.
std::string engine_text(engine::kind kind, size_t index);

/// "3:ConvBackward:conv3x3", separated by spaces.
std::string ops_text(std::span<const checked_op> ops);

/// "f32:2x3x8x8:acdb": the axes by descending strides where the tensor is
/// dense, strides ("f32:2x3x8x8:768x256x16x1") where it is not.
std::string tensor_text(const logical_tensor &lt);

/// The tensors that come from outside the ops or that the ops make:
/// "diff_dst:2:f32:1x3x8x10:abcd", port and id first, separated by spaces.
std::string ports_text(std::span<const checked_op> ops,
        std::span<const logical_tensor> ports, bool output);

/// The output that a step computes: "3.diff_weights", the op's id first.
std::string step_text(const checked_op &the_op, const executable_step &step);

/// The name of an output as the op's schema has it: "diff_weights".
std::string output_name(const checked_op &the_op, size_t output);
/// Of a step, which may make something else: "composed_weights".
std::string output_name(const checked_op &the_op, const executable_step &step);

/// All fields of a compiled partition but event, milliseconds and note.
log_line compiled_line(const compiled_impl &compiled);

} // namespace gradnn::detail
