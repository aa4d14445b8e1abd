// The GPU's row of src/backends.cpp, and what the program asks beyond it.
// Includes nothing of CUDA: a CPU-only build has it too (absent.cpp).
#pragma once

#include <string>

#include "kernel/backend.hpp"

namespace gradnn::gpu {

/// Without devices and kernels in a CPU-only build.
extern const detail::backend backend;

/// What compiles kernels for their problems: NVRTC's version ("13.0") and file. `missing` says
/// why there is none.
struct kernel_compiler {
    std::string version;
    std::string path;
    std::string missing;
};
kernel_compiler find_kernel_compiler();

} // namespace gradnn::gpu
