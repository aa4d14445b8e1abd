// The bias gradient of dense memory that repeats the channels: partial sums by
// columns.
#pragma once

#include "gpu/bias/batches.cuh"
#include "gpu/device/early_start.cuh"

namespace gradnn::gpu::bias {

/// Dense memory as a matrix of rows of `vectors` packs, the last of which may
/// end early, even within a pack. A block has `lanes` rows at a time, or
/// blockIdx.y names its columns where a row has more of them than a block has
/// threads. partials[part][vectors * vector].
template <typename Type>
__global__ void __launch_bounds__(threads, resident) columns_kernel(
        const Type *diff_dst, sum_of<Type> *partials, int64_t elements,
        int64_t rows, int64_t vectors, int lanes, bool whole) {
    using sum = sum_of<Type>;
    constexpr int vector = elements_of_16_bytes<Type>;
    __shared__ __align__(16) sum lane_sums[threads * vector];
    const auto thread = static_cast<int>(threadIdx.x);
    const int width = lanes == 1 ? threads : static_cast<int>(vectors);
    const int lane = thread / width;
    const int first_column = static_cast<int>(blockIdx.y) * threads;
    const int64_t column = first_column + thread % width;
    const int64_t parts = gridDim.x;
    const int64_t begin = blockIdx.x * rows / parts;
    const int64_t end = (blockIdx.x + 1) * rows / parts;
    const int64_t packs = elements / vector; // whole ones
    const int64_t limit = end * vectors;
    const int64_t first = (begin + lane) * vectors + column;
    const int64_t step = lanes * vectors;
    const Type *from = diff_dst + first * vector;
    // Short, as are rows (65535 blocks of columns), for cheap addresses.
    const auto pitch = static_cast<int>(step) * vector;
    // Loads of this thread: an int, since no memory holds more.
    const auto left
            = static_cast<int>((min(limit, packs) - first + step - 1) / step);
    sum *const sums = lane_sums + thread * vector; // registers are scarce
#pragma unroll
    for (int e = 0; e < vector; ++e)
        sums[e] = 0;
    wait_and_let_later_work_start();
    const auto walk = [&]<bool aligned>() {
        const auto load = [&](auto &words, int left) {
            // By a branch, at whose end the compiler has issued all loads.
            if (left >= in_flight)
#pragma unroll
                for (int i = 0; i < in_flight; ++i)
                    load_into<aligned>(words[i], from + i * pitch);
            else
#pragma unroll
                for (int i = 0; i < in_flight; ++i)
                    if (i < left)
                        load_into<aligned>(words[i], from + i * pitch);
            from += in_flight * pitch;
        };
        const auto keep = [&](const sum(&of_chain)[vector]) {
#pragma unroll
            for (int e = 0; e < vector; ++e)
                sums[e] += of_chain[e];
        };
        add_words<Type, vector>(left, load, keep);
    };
    const bool mine = lane < lanes && column < vectors;
    if (mine) {
        if (whole)
            walk.template operator()<true>();
        else
            walk.template operator()<false>();
        const auto rest = static_cast<int>(elements % vector);
        if (rest > 0 && packs >= first && packs < limit
                && (packs - first) % step == 0)
#pragma unroll
            for (int e = 0; e < vector - 1; ++e)
                if (e < rest) sums[e] += widen(diff_dst[packs * vector + e]);
    }
    sum *to = partials + (blockIdx.x * vectors + first_column) * vector;
    __syncthreads();
    const int row_elements
            = min(static_cast<int>(vectors) - first_column, width) * vector;
#pragma unroll 1
    for (int e = thread; e < row_elements; e += threads) {
        sum total = 0;
        for (int other = 0; other < lanes; other += in_flight) {
            sum some[in_flight];
#pragma unroll
            for (int i = 0; i < in_flight; ++i)
                some[i] = other + i < lanes
                        ? lane_sums[(other + i) * row_elements + e]
                        : sum {0};
            total += sum_tree(some);
        }
        to[e] = total;
    }
}

} // namespace gradnn::gpu::bias
