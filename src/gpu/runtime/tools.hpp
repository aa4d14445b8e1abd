// What the gradnn program needs of a GPU besides the library: memory for its
// tensors, times and limits. Includes nothing of CUDA; a CPU-only build has these
// functions too (absent.cpp), and makes no engine to call them with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <gradnn/engine.hpp>

namespace gradnn::gpu {

/// Bytes of the memory of a GPU that nobody has taken.
size_t available_memory(const engine &e);

/// A block of a GPU's memory. Throws error out_of_memory.
class memory_block {
public:
    memory_block(const engine &e, size_t bytes);
    memory_block(memory_block &&) noexcept = default;
    memory_block &operator=(memory_block &&) noexcept = default;

    std::byte *data() const { return static_cast<std::byte *>(data_.get()); }
    size_t size() const { return size_; }

    /// All blocking, and after everything that was submitted to the GPU.
    void fill(int byte);
    void write(size_t offset, const void *from, size_t bytes);
    void read(size_t offset, void *to, size_t bytes) const;

private:
    size_t device_;
    size_t size_;
    std::shared_ptr<void> data_;
};

/// Submits a copy within the memory of the stream's GPU.
void copy_on(const stream &s, void *to, const void *from, size_t bytes);

/// Submits a kernel that does nothing.
void launch_nothing_on(const stream &s);

/// Makes the stream wait for a time in which the host can submit so many partitions, so that
/// none of them waits for the host.
void pause_on(const stream &s, size_t partitions);

/// What is submitted to a GPU's stream, recorded in a CUDA graph.
class recorded_work {
public:
    /// `work` must have run on the stream before, so that nothing is allocated
    /// while it is recorded.
    recorded_work(const stream &s, const std::function<void()> &work);
    /// The graph's nodes: kernels, copies and fills.
    size_t launches() const;
    /// Submits all of it to the stream again, in one call.
    void submit() const;

private:
    struct state;
    std::shared_ptr<state> state_;
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

/// Submits a loop that fills the GPU; returns its multiplications and
/// additions.
double compute_on(const stream &s, compute_loop loop, int64_t rounds);

} // namespace gradnn::gpu
