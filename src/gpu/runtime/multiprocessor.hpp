// What a multiprocessor (SM) of a device has for the blocks that it holds: the only
// place for these figures.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gradnn::gpu {

/// Shared memory that a block has where its kernel was not allowed more
/// (allow_shared_bytes). The same on every device.
constexpr int64_t default_block_shared_bytes = 48 << 10;

struct multiprocessor {
    // CUDA says these of a device (device.cpp). Without one they are those of compute
    // capability 9.0.
    int64_t registers = 65536;
    int64_t shared_bytes = 228 << 10;
    /// Of shared_bytes, what CUDA takes for each block beside the block's own.
    int64_t reserved_bytes = 1 << 10;
    int64_t threads = 2048;
    int64_t blocks = 32;

    /// Blocks of a kernel that it holds at a time; 0 where not even one fits. Registers
    /// are those of a thread, as they are allotted: ptxas's numbers rounded up to a
    /// multiple of 8.
    constexpr int64_t blocks_held(int64_t block_threads,
            int64_t thread_registers, int64_t block_shared_bytes) const {
        return std::min({blocks, threads / block_threads,
                registers / (thread_registers * block_threads),
                shared_bytes / (block_shared_bytes + reserved_bytes)});
    }
};

/// What the cuts of kernels that are compiled for their problem are made for.
struct gpu_facts {
    int multiprocessors;
    int block_shared_bytes; ///< that a block may have
    int shared_bytes, registers, threads; ///< of a multiprocessor
};

} // namespace gradnn::gpu
