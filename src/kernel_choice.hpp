// Which kernel computes a problem.
#pragma once

#include <span>
#include <string>

#include "executable.hpp"
#include "lowering.hpp"

namespace gradnn::detail {

/// The value of GRADNN_KERNEL: kernel names separated by commas, or empty.
std::string forced_kernels();

/// The environment variables that an engine's kernels read at compile.
std::span<const char *const> compile_variables(engine::kind kind);

/// The first kernel of the engine's list that does not refuse the step's
/// problem; with `forced` naming kernels of that list, the first of those.
/// Throws unimplemented with every refusal's reason where none accepts, and
/// invalid_arguments where `forced` names an unknown kernel. The step's
/// arguments are left to the caller.
executable_step choose_kernel(const lowered_step &step, engine::kind kind,
        const compile_options &options, const std::string &forced,
        const op &the_op);

} // namespace gradnn::detail
