// A rectangle of cells shared out among the threads of a block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/device/divider.hpp"

namespace gradnn::gpu {

/// Neighbouring threads have neighbouring cells of a row, and a thread stays in a few
/// columns: it has (x + i * x_step, y + j * y_step).
struct shared_out {
    exact_divider x_step;
    int32_t y_step = 1;

    shared_out() = default;
    shared_out(int64_t width, int64_t threads)
        : x_step(std::min(width, threads)),
          y_step(static_cast<int32_t>(threads / x_step.by)) {}
};

/// The first cell of a thread; x is beyond any rectangle where it has none.
struct cells_of_thread {
    int x, y;

    __host__ __device__ cells_of_thread(
            const shared_out &cells, unsigned thread)
        : y(static_cast<int>(cells.x_step.quotient(thread))) {
        constexpr int beyond = 1 << 28;
        const auto across = static_cast<unsigned>(y) * cells.x_step.by;
        x = y < cells.y_step ? static_cast<int>(thread - across) : beyond;
    }
};

} // namespace gradnn::gpu
