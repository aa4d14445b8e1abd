// Depthwise windows along W alone, on tensor cores: what the two kernels share.
#pragma once

#include "gpu/convolution_depthwise_lines.hpp"
#include "gpu/convolution_depthwise_matrices.cuh"

namespace gradnn::gpu {

/// Columns of a row as a warp holds them in shared memory, zeros in place of those
/// outside. They begin as far past a multiple of 16 bytes as they do in the tensor.
template <typename Type>
struct held_columns {
    const Type *tensor;
    const Type *end; ///< of the tensor
    const Type *row;
    int columns; ///< of the row
    int first; ///< that is held; may be outside, as may others
    int count;

    /// Bytes that the first lies past a multiple of 16.
    __device__ int past() const {
        return static_cast<int>(
                (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row))
                        + static_cast<uint32_t>(first) * sizeof(Type))
                & 15U);
    }
    /// Submits copies to what follows `to`, a multiple of 16 bytes, by a warp.
    __device__ __forceinline__ void fetch(uint32_t to) const {
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const int begin = max(0, first);
        const int stop = min(columns, first + count);
        if (begin >= stop) return;
        const auto *const held
                = reinterpret_cast<const std::byte *>(row + first) - past();
        const int bytes_end = past()
                + (stop - first) * static_cast<int>(sizeof(Type));
        // The multiple of 16 that the first column inside lies behind.
        int at = (past() + (begin - first) * static_cast<int>(sizeof(Type)))
                / 16 * 16;
        at += lane * 16;
#pragma unroll 1
        for (; at < bytes_end; at += 32 * 16) {
            const std::byte *const from = held + at;
            if (from >= reinterpret_cast<const std::byte *>(tensor)
                    && from + 16 <= reinterpret_cast<const std::byte *>(end)) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                     to + at),
                        "l"(from)
                        : "memory");
                continue;
            }
            // At the tensor's ends.
            for (int b = 0; b < 16; b += sizeof(Type)) {
                const auto *const element
                        = reinterpret_cast<const Type *>(from + b);
                if (element >= tensor && element < end)
                    store_shared_half(to + at + b,
                            reinterpret_cast<const unsigned short &>(*element));
            }
        }
    }
    /// Once the copies are there: zeros for the columns outside, by a warp. Returns
    /// whether there are any, then to be followed by __syncwarp.
    __device__ __forceinline__ bool clear_outside(uint32_t to) const {
        if (first >= 0 && first + count <= columns) return false;
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const uint32_t place = to + past();
#pragma unroll 1
        for (int i = lane; i < min(count, -first); i += 32)
            store_shared_half(place + i * 2, 0);
#pragma unroll 1
        for (int i = max(0, columns - first) + lane; i < count; i += 32)
            store_shared_half(place + i * 2, 0);
        return true;
    }
};

/// What a warp takes: a piece of a row.
struct lines_piece {
    int image;
    int row; ///< of a plane
    int column; ///< of written or dst

    __device__ lines_piece(
            const depthwise_shape &shape, const depthwise_lines &cut, int piece) {
        const int of_rows = piece / cut.pieces;
        column = (piece - of_rows * cut.pieces) * lines_columns;
        image = of_rows / shape.axes[1].read;
        row = of_rows - image * shape.axes[1].read;
    }
    /// The row of a channel in a tensor of so many columns.
    __device__ int64_t first(const depthwise_shape &shape, int64_t channel,
            int columns) const {
        return ((image * shape.channels + channel) * shape.axes[1].read + row)
                * columns;
    }
};

} // namespace gradnn::gpu
