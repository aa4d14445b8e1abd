// Kernels written to files, to be read by people and tools.
#pragma once

#include <string>

#include "gpu/jit/compiler.hpp"
#include "gpu/jit/load.hpp"

namespace gradnn::gpu::jit {

/// Whether GRADNN_DUMP_KERNELS names a folder.
bool dumps();

/// Writes a folder there for the kernel: its sources, by which nvcc compiles it,
/// its key and its code. Does nothing without the variable; what cannot be
/// written is for the log.
void dump(const kernel_request &request, const compilation &what,
        const std::string &key, const std::string &code);

} // namespace gradnn::gpu::jit
