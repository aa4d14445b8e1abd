// What a device has for the blocks that its multiprocessors (SM) hold: the only place for
// these figures.
#pragma once

#include <cstdint>

namespace gradnn::gpu {

/// Shared memory that a block has where its kernel was not allowed more
/// (allow_shared_bytes). The same on every device.
constexpr int64_t default_block_shared_bytes = 48 << 10;

/// What kernels' cuts are made for.
struct gpu_facts {
    int multiprocessors;
    int block_shared_bytes; ///< that a block may ask for
    int shared_bytes, registers, threads; ///< of a multiprocessor
};

} // namespace gradnn::gpu
