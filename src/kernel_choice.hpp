// Which kernel computes a problem.
#pragma once

#include "executable.hpp"
#include "lowering.hpp"

namespace gradnn::detail {

/// The first kernel of the engine's list that does not refuse the step's
/// problem; with options.kernels naming kernels of that list, the first of
/// those. Throws unimplemented with every refusal's reason where none accepts,
/// and invalid_arguments where options.kernels names an unknown kernel. What
/// the step reads and writes is left to the caller.
executable_step choose_kernel(const lowered_step &step, engine::kind kind,
        const compile_options &options, const op &the_op);

/// Whether the engine's kernels rather write the step's output channels last than
/// in the layout that its problem has.
bool writes_channels_last(const lowered_step &step, engine::kind kind,
        const compile_options &options);

} // namespace gradnn::detail
