// How partitions are compiled: what graph, fpmath_mode and the engine do not
// say. doc/options.md lists these and the environment variables.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace gradnn {

/// Settings of a graph's partitions, read when they are compiled. A member
/// that is left as it is takes its value from the environment variable named
/// beside it, or where that is not set the default. They are part of the key
/// of the compiled partition cache.
struct compile_settings {
    /// Threads of a partition on the CPU engine; 0 stands for the default:
    /// omp_get_max_threads() when the process compiles for the first time, so
    /// OMP_NUM_THREADS where that is set. The partition runs on this many
    /// threads or fewer, whatever OMP_NUM_THREADS says later. The bits of a
    /// result depend on this number and on the kind of CPU, and on nothing
    /// else of the machine. More than 4096, or than OMP_THREAD_LIMIT, are
    /// refused when the partition is compiled. Ignored on GPU engines.
    int threads = 0;

    /// Names of kernels, separated by commas ("convolution.gemm"): where one
    /// of a problem's list of kernels is named, only the named ones are tried.
    /// Empty: GRADNN_KERNEL. For tests and measurements.
    std::string kernels;

    /// Whether kernels are timed at compile on a GPU engine, to take the
    /// fastest: gradnn's own for an interpolation, those and cuDNN's for a
    /// convolution. Not set: GRADNN_AUTOTUNE; the default is false.
    std::optional<bool> autotune;

    /// The file that keeps what autotune measured, and is read without it too.
    /// Not set: GRADNN_PLAN_CACHE; the default, and an empty name, is no file.
    std::optional<std::string> plan_cache;

    /// The most bytes of workspace that a convolution on a GPU may take,
    /// except in convolution.gpu_direct, the kernel of last resort. Not set:
    /// GRADNN_CONVOLUTION_WORKSPACE_LIMIT; the default is a quarter of the
    /// device's memory.
    std::optional<size_t> convolution_workspace_limit;

    /// Whether kernels of a GPU engine may be compiled for their problem when
    /// a partition is compiled, which takes up to some tenths of a second for
    /// a problem that no kernel was compiled for before. Off: kernels that were
    /// compiled with the library alone. Not set: GRADNN_SPECIALISE; the default
    /// is true.
    std::optional<bool> specialise;

    /// The folder that keeps such kernels for the next process. It is made
    /// where it is not there. Not set: GRADNN_KERNEL_CACHE; the default is
    /// gradnn/kernels in XDG_CACHE_HOME or ~/.cache. An empty name, "0" or
    /// "OFF": none.
    std::optional<std::string> kernel_cache;
};

} // namespace gradnn
