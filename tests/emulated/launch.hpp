// Runs the blocks of a kernel on the CPU.
#pragma once

#include <vector>

#include "emulated/simt.hpp"

namespace gradnn::emulated {

template <typename Kernel>
void launch(unsigned grid, unsigned threads, size_t shared, bool descending,
        const Kernel &kernel) {
    // NaN in all types, and -1: a block finds anything there.
    std::vector<uint4> memory(shared / 16 + 9, uint4 {~0U, ~0U, ~0U, ~0U});
    const auto past = reinterpret_cast<uintptr_t>(memory.data()) % 128;
    shared_memory
            = reinterpret_cast<char *>(memory.data()) + (128 - past) % 128;
    shared_bytes = shared;
    grid_size = {grid, 1, 1};
    for (unsigned i = 0; i < grid; ++i)
        block::run(i, threads, descending, kernel);
}

} // namespace gradnn::emulated
