// Device code of interpolation.gpu_axes that adds up what feeds the outputs of a thread:
// its columns in a stage, its rows in the sums over the columns, and its layers.
#pragma once

#include "gpu/interpolation/axes/cut.hpp"
#include "gpu/interpolation/shared_taps.cuh"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::axes {

/// The columns that feed an element, and their weights.
template <typename Type, int taps>
struct column_taps {
    using sum = sum_of<Type>;
    sum weights[taps];

    /// `step`: elements from tap to tap.
    __device__ __forceinline__ sum add(
            const unsigned char *window, int step) const {
        const auto *const from = reinterpret_cast<const Type *>(window);
        sum added = 0;
#pragma unroll
        for (int k = 0; k < taps; ++k)
            added = add_product(added, weights[k], widen(from[k * step]));
        return added;
    }
    /// Without those of weight 0, read again: kept from `add`, they would take
    /// registers.
    __device__ __forceinline__ sum add_own(
            const unsigned char *window, int step) const {
        asm volatile("" : "+l"(window));
        const auto *const from = reinterpret_cast<const Type *>(window);
        sum added = 0;
#pragma unroll
        for (int k = 0; k < taps; ++k)
            if (weights[k] != 0)
                added = add_product(added, weights[k], widen(from[k * step]));
        return added;
    }
};

/// values[j] = the sum over the columns of the window that begins `j * distance` bytes
/// behind `window`. `step`: elements from column to column.
template <typename Sum, int count, typename Columns>
__device__ __forceinline__ void add_over_columns(Sum (&values)[count],
        const Columns &columns, const unsigned char *window, uint32_t distance,
        int step) {
    Sum none = 0; // NaN where one is not finite
#pragma unroll
    for (int j = 0; j < count; ++j) {
        values[j] = columns.add(window + j * distance, step);
        none = add_product(none, Sum(0), values[j]);
    }
    if (is_finite(none)) return;
#pragma unroll
    for (int j = 0; j < count; ++j)
        values[j] = columns.add_own(window + j * distance, step);
}

/// The same of rows: every `distance`-th of those whose windows begin `places` bytes
/// behind `tile`, `left` of them all, `together` at a time; the sums go to `to`, each
/// `to_distance` behind the one before. There are places and room for whole groups.
template <int together, typename Sum, typename Columns>
__device__ __forceinline__ void add_columns_of_rows(const Columns &columns,
        const unsigned char *tile, int step, const uint32_t *places,
        int distance, Sum *to, int to_distance, int left) {
    uint32_t from = shared_address(places);
    const auto from_step
            = static_cast<uint32_t>(distance) * static_cast<uint32_t>(4);
    uint32_t at = shared_address(to);
    const auto at_step = static_cast<uint32_t>(to_distance)
            * static_cast<uint32_t>(sizeof(Sum));
#pragma unroll 1
    for (; left > 0; left -= together * distance) {
        const unsigned char *windows[together];
        Sum sums[together][1];
        Sum none = 0;
#pragma unroll
        for (int k = 0; k < together; ++k)
            windows[k] = tile + load_shared(from + k * from_step);
#pragma unroll
        for (int k = 0; k < together; ++k) {
            sums[k][0] = columns.add(windows[k], step);
            none = add_product(none, Sum(0), sums[k][0]);
        }
        if (!is_finite(none))
#pragma unroll
            for (int k = 0; k < together; ++k)
                sums[k][0] = columns.add_own(windows[k], step);
#pragma unroll
        for (int k = 0; k < together; ++k)
            store_shared(at + k * at_step, sums[k]);
        from += together * from_step;
        at += together * at_step;
    }
}

/// The rows that feed the outputs of a thread.
template <typename Sum>
struct row_sums {
    const tap_place *lines; ///< of its first output
    int distance; ///< of its outputs
    const Sum *weights;
    int most_taps;
    int pitch; ///< of the sums over the columns
};

/// values[j] = the sum over the rows of output j, of sums over the columns that begin
/// at `from`.
template <typename Sum, int count>
__device__ __forceinline__ void add_over_rows(
        Sum (&values)[count], const row_sums<Sum> &rows, const Sum *from) {
    const uint32_t begin = shared_address(from);
    with_taps(rows.most_taps, [&]<int held>() {
#pragma unroll
        for (int j = 0; j < count; ++j) {
            const tap_place line = rows.lines[j * rows.distance];
            const Sum *const weights = rows.weights + line.weights;
            const uint32_t at
                    = begin + line.start * static_cast<uint32_t>(sizeof(Sum));
            Sum added[1] = {};
            if constexpr (held != 0) {
                Sum by[held];
                load_weights(by, weights);
                add_taps(added, by, at, line.count, rows.pitch);
            } else {
                add_all_taps(added, weights, at, line.count, rows.pitch);
            }
            values[j] = added[0];
        }
    });
}

/// Adds a layer of diff_dst to those of diff_src that it feeds.
template <typename Sum, int outputs, int count>
__device__ __forceinline__ void add_to_layers(Sum (&low)[outputs],
        Sum (&high)[outputs], const line_row<Sum> &by,
        const Sum (&values)[count]) {
#pragma unroll
    for (int j = 0; j < count; ++j)
        low[j] = add_product(low[j], by.low_weight, values[j]);
    if (by.high_weight == 0) return;
#pragma unroll
    for (int j = 0; j < count; ++j)
        high[j] = add_product(high[j], by.high_weight, values[j]);
}

} // namespace gradnn::gpu::interpolation::axes
