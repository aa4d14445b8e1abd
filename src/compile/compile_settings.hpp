// From what the caller states, and the environment, to what kernels are given.
#pragma once

#include <gradnn/settings.hpp>

#include "compile/partition.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::detail {

/// Throws invalid_arguments for a number of threads below 0.
void check_settings(const compile_settings &settings);

/// Whether kernels may be compiled for their problems, and the folder that keeps them
/// (empty: none): by the settings, else by the environment.
bool specialises(const compile_settings &settings);
std::string kernel_cache_of(const compile_settings &settings);

/// The options of a compilation. Throws invalid_arguments for more threads
/// than the OpenMP runtime gives and for an environment variable that cannot
/// be read.
compile_options options_of(const partition_impl &partition, const engine &e);

} // namespace gradnn::detail
