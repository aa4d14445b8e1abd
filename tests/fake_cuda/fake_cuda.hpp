// A stand-in for the CUDA runtime: one GPU that is not there.
//
// A program that links gradnn_fake_cuda makes plans for a GPU on any machine: it
// has the properties of an H200, or of the GPU that GRADNN_FAKE_GPU names
// (devices.cpp), memory of the host, and occupancies computed from the kernels'
// machine code. Kernels that are launched do nothing. It takes the place of
// libcudart.so, which such a program does not link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gradnn::fake_cuda {

/// Something that a GPU would have been given to do.
struct event {
    enum class kind { launch, upload, copy, fill };
    kind what = kind::launch;
    std::string kernel; ///< mangled
    std::array<unsigned, 3> grid {};
    std::array<unsigned, 3> block {};
    size_t bytes = 0; ///< dynamic shared memory, or copied or filled
    uint64_t digest = 0; ///< of an upload's contents
};

/// What was submitted since the last call.
std::vector<event> take_events();

/// From now on the device's clock, which events read, goes on by so many
/// milliseconds with each launch of a kernel, named as it is mangled. Without such
/// a function it stands still.
void set_kernel_times(std::function<double(const std::string &kernel)> times);

/// Whether a stream of another thread is under capture in CUDA's global mode: what
/// loads code is then refused, unless the calling thread's mode is relaxed.
void set_capture_elsewhere(bool captured);

/// Of CUDA, that the driver is for (12090); by default the runtime's.
void set_driver_version(int version);

/// Libraries that were loaded (cudaLibraryLoadData).
size_t loaded_libraries();

/// FNV-1a.
uint64_t digest_of(const void *data, size_t bytes);

/// "kernel<float, 2>": a kernel's name as its source has it, without arguments,
/// gradnn's namespaces and the names of files that nvcc puts into those of
/// anonymous namespaces. Of a template whose parameters are long, or cannot be
/// demangled, a digest of them: "run_tile<#0123456789abcdef>".
std::string readable_name(const std::string &mangled);

/// Of the kernels of this program; those whose machine code is missing or could
/// not be read, and why.
size_t kernel_count();
std::vector<std::string> unreadable_kernels();

} // namespace gradnn::fake_cuda
