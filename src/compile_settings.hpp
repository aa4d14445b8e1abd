// From what the caller states, and the environment, to what kernels are given.
#pragma once

#include <gradnn/settings.hpp>

#include "graph_impl.hpp"
#include "kernel.hpp"

namespace gradnn::detail {

/// Throws invalid_arguments for a number of threads below 0.
void check_settings(const compile_settings &settings);

/// The options of a compilation. Throws invalid_arguments for more threads
/// than the OpenMP runtime gives and for an environment variable that cannot
/// be read.
compile_options options_of(const partition_impl &partition, const engine &e);

} // namespace gradnn::detail
