// The GPU's row of src/backends.cpp, and what the program asks beyond it.
// Includes nothing of CUDA: a CPU-only build has it too (absent.cpp).
#pragma once

#include <string>

#include "kernel/backend.hpp"

namespace gradnn::gpu {

/// Without devices and kernels in a CPU-only build.
extern const detail::backend backend;

/// What compiles kernels for their problems: NVRTC's version ("13.0") and file. `missing` says
/// why there is none and what to install; it is empty where there is one.
struct kernel_compiler {
    std::string version;
    std::string path;
    std::string missing;
};
/// Looked for once (gpu/jit/compiler.cpp).
const kernel_compiler &find_kernel_compiler();

/// Which of the kernels that were compiled with the library a device runs.
struct device_code {
    int ptx = 0; ///< that they were made of, 90 for compute capability 9.0; 0: none
    std::string text; ///< "machine code for compute ...", or "none: why"
};
/// Asked once, for which CUDA makes a context on the device.
const device_code &code_of_device(size_t index);
/// Which there are: "machine code for 8.0, PTX for 9.0"; empty in a CPU-only build.
extern const char *const code_of_library;

} // namespace gradnn::gpu
