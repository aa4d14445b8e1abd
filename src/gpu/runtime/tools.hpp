// What the gradnn program needs of a GPU besides the library: what its tensors hold,
// times and limits. Includes nothing of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <gradnn/engine.hpp>

namespace gradnn::gpu {

/// What was submitted to a GPU's stream, recorded in a CUDA graph.
struct recorded_work {
    size_t launches; ///< the graph's nodes: kernels, copies and fills
    std::function<void()> submit; ///< all of it again, in one call
};

/// Loops of arithmetic in registers: what a GPU's units can do at most.
enum class compute_loop {
    f32_fma, ///< fused multiplications and additions
    f64_fma,
    f64_tensor, ///< products of small matrices on tensor cores (mma.sync)
    tf32_tensor,
    bf16_tensor,
    f16_tensor,
};

struct tool_functions {
    /// Bytes of the memory of a GPU that nobody has taken.
    size_t (*available_memory)(const engine &e);

    /// Fills memory of a GPU; copies from it or to it, or both. Blocking, and after
    /// everything that was submitted to the GPU.
    void (*fill_blocking)(const engine &e, void *to, int byte, size_t bytes);
    void (*copy_blocking)(
            const engine &e, void *to, const void *from, size_t bytes);

    /// Submits a copy within the memory of the stream's GPU.
    void (*copy_on)(const stream &s, void *to, const void *from, size_t bytes);

    /// Submits a kernel that does nothing.
    void (*launch_nothing_on)(const stream &s);

    /// Makes the stream wait for a time in which the host can submit so many partitions,
    /// so that none of them waits for the host.
    void (*pause_on)(const stream &s, size_t partitions);

    /// `work` must have run on the stream before, so that nothing is allocated while it
    /// is recorded.
    recorded_work (*record)(const stream &s, const std::function<void()> &work);

    /// Submits a loop that fills the GPU; returns its multiplications and additions.
    double (*compute_on)(const stream &s, compute_loop loop, int64_t rounds);
};

/// Null in a CPU-only build, which makes no engine to call them with.
extern const tool_functions tools;

} // namespace gradnn::gpu
