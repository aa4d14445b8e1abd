// A kernel compiled for the problem that it is to compute: found in memory or on the
// disk, or compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpu/jit/compiler.hpp"
#include "gpu/runtime/launch.hpp"
#include "kernel/kernel.hpp"

namespace gradnn::gpu::jit {

/// Stays loaded for the life of the process.
struct compiled_kernel {
    /// A cudaKernel_t. CUDA's functions take it where they take the address of
    /// a __global__ function, on every device of the architecture.
    const void *function = nullptr;
    int registers = 0; ///< of a thread
    size_t local_bytes = 0; ///< of a thread: what was spilled, and arrays
    size_t static_shared_bytes = 0; ///< of a block
    bool from_disk = false; ///< else compiled by this process
};

struct kernel_or_refusal {
    std::shared_ptr<const compiled_kernel> kernel;
    std::string refusal; ///< why there is no kernel
};

/// The kernel for options.device. Refuses where there is no NVRTC, or it does not
/// compile the source, for which all later requests are refused too. Throws
/// gradnn::error out_of_memory where memory ran out, and invalid_arguments for a
/// source that is not embedded. Does not ask options.specialise: that is for
/// the maker of a plan, which may have another kernel. Threads that ask for the
/// same kernel at once wait for one of them to compile it; other kernels are
/// compiled beside it. Disturbs no capture of a stream.
kernel_or_refusal load(
        const kernel_request &request, const detail::compile_options &options);

/// Forgets all kernels, failures too, as a new process would: for tests, which load none
/// meanwhile.
void forget_kernels();

/// A kernel and its launch.
struct kernel_launch {
    kernel_request request;
    int64_t grid = 0;
    int threads = 0;
    size_t shared_bytes = 0;
    std::shared_ptr<const compiled_kernel> kernel = nullptr; ///< once loaded

    /// As gpu::launch_early. The arguments have the types of the kernel's parameters:
    /// nothing converts them.
    template <typename... Arguments>
    void operator()(const char *name, const launch_stream &stream,
            Arguments... arguments) const {
        void *pointers[] = {static_cast<void *>(&arguments)...};
        const early_launch launch(grid, threads, shared_bytes, stream);
        check(cudaLaunchKernelExC(&launch, kernel->function, pointers), name);
    }
};

/// Loads one kernel after the other until one spills no registers. Returns the number of
/// the one that spills least; nothing, and the reason in `refusal`, where the first is refused.
std::optional<size_t> load_without_spills(std::span<kernel_launch>,
        const detail::compile_options &, std::string &refusal);

} // namespace gradnn::gpu::jit
