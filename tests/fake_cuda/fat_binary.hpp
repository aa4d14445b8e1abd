// The resources of kernels, read from the machine code that nvcc embeds.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

namespace gradnn::fake_cuda {

/// What ptxas has written of a kernel.
struct kernel_code {
    int registers = 0; ///< of a thread
    size_t shared_bytes = 0; ///< static
    size_t local_bytes = 0; ///< of a thread: its stack
    int most_threads = 1024; ///< of a block, by its launch bounds
    /// Of a fat binary: what it is for (90: compute capability 9.0), and was made of.
    unsigned binary = 0, ptx = 0;
};

/// Kernels by their mangled names.
using kernel_codes = std::map<std::string, kernel_code, std::less<>>;

/// The kernels of a fat binary, given as __cudaRegisterFatBinary is, as a device of an
/// architecture (90: compute capability 9.0) runs them: the machine code of its own
/// generation, and of that the nearest that is not newer. Where there is none, with
/// `or_nearest`, the nearest older or else newer, as if the driver had made it of PTX.
/// Empty where it has no such machine code. Throws std::runtime_error where it cannot be
/// read.
kernel_codes read_fat_binary(
        const void *wrapper, unsigned architecture, bool or_nearest);

/// The kernels of machine code alone, as NVRTC gives it: an ELF file.
kernel_codes read_machine_code(const void *code, size_t bytes);

} // namespace gradnn::fake_cuda
