// Depthwise windows along W alone, on tensor cores: what the two kernels share.
#pragma once

#include <cstddef>

#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/early_start.cuh"
#include "gpu/device/rounding.hpp"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::depthwise::lines {

/// Columns of a row as a warp holds them in shared memory, zeros in place of
/// those outside. They begin as far past a multiple of 16 bytes as they do in
/// the tensor.
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
        // From the multiple of 16 that the first column inside lies behind.
        const int begins
                = (past() + (begin - first) * static_cast<int>(sizeof(Type)))
                / 16 * 16;
        const int ends = round_up(
                past() + (stop - first) * static_cast<int>(sizeof(Type)), 16);
        const auto *const tensor_begin
                = reinterpret_cast<const std::byte *>(tensor);
        const auto *const tensor_end = reinterpret_cast<const std::byte *>(end);
        if (held + begins >= tensor_begin && held + ends <= tensor_end) {
#pragma unroll 1
            for (int at = begins + lane * 16; at < ends; at += 32 * 16)
                copy_async_past_l1(
                        __cvta_shared_to_generic(to + at), held + at);
            return;
        }
        // At the tensor's ends element by element.
        const uint32_t place = to + past();
#pragma unroll 1
        for (int i = begin - first + lane; i < stop - first; i += 32)
            store_shared_half(place + i * 2,
                    reinterpret_cast<const unsigned short *>(row + first)[i]);
    }
    /// Once the copies are there: zeros for the columns outside, by a warp.
    /// Returns whether there are any, then to be followed by __syncwarp.
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

/// Pairs of elements from any address on, or (`wide` 2) from multiples of 4
/// bytes.
template <int wide>
class pairs_at {
public:
    __device__ explicit pairs_at(uint32_t address) : address_(address) {
        if constexpr (wide == 2) return;
        shift_ = (address & 2U) * 8;
        address_ &= ~3U;
    }
    /// The pair so many bytes further on, a multiple of 4.
    __device__ __forceinline__ uint32_t load(int offset) const {
        const uint32_t low = load_shared(address_ + offset);
        if constexpr (wide == 2) return low;
        return __funnelshift_r(low, load_shared(address_ + offset + 4), shift_);
    }
    __device__ __forceinline__ void advance(int bytes) { address_ += bytes; }

private:
    uint32_t address_;
    uint32_t shift_ = 0;
};

/// What a warp takes: a piece of a row.
struct warp_piece {
    int image;
    int row; ///< of a plane
    int column; ///< of written

    __device__ warp_piece(
            const problem_shape &shape, const work_cut &cut, int piece) {
        const int rows = shape.axes[1].read;
        const int number = cut.pieces == 1 ? piece : piece / cut.pieces;
        column = (piece - number * cut.pieces) * warp_columns;
        image = rows == 1 ? number : number / rows;
        row = number - image * rows;
    }
    /// The row of a channel in a tensor of so many columns.
    __device__ int64_t first(
            const problem_shape &shape, int64_t channel, int columns) const {
        return ((image * shape.channels + channel) * shape.axes[1].read + row)
                * columns;
    }
};

/// The kernels' template argument `steps` for a cut.
inline one_of<2, 3, 4, 5> steps_of(
        const problem_shape &shape, const work_cut &cut) {
    return {steps_of_taps(shape.axes[2].kernel + cut.lead)};
}

} // namespace gradnn::gpu::depthwise::lines
