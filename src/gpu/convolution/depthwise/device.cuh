// What the depthwise kernels share on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/convolution/depthwise/shape.hpp"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"
#include "gpu/device/rounding.hpp"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::depthwise {

/// Bytes that an address lies past a multiple of 16.
__device__ __forceinline__ int bytes_past(const void *address) {
    return static_cast<int>(
            static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address)) & 15U);
}

/// Submits copies of neighbouring elements of a tensor of so many `elements` to shared
/// memory, 16 bytes at a time, with what lies around them within multiples of 16: the
/// share of thread `thread` of so many. place(at) is the address for the bytes that lie
/// `at` after the multiple of 16 at or before the first.
template <typename Type, typename Place>
__device__ __forceinline__ void fetch_elements(const Type *first, int count,
        const Type *tensor, int64_t elements, int thread, int threads,
        const Place &place) {
    const int past = bytes_past(first);
    const int bytes = past + count * static_cast<int>(sizeof(Type));
    const int rounded = round_up(bytes, 16);
    const auto *const from = reinterpret_cast<const std::byte *>(first) - past;
    const auto *const tensor_begin
            = reinterpret_cast<const std::byte *>(tensor);
    const auto *const tensor_end
            = reinterpret_cast<const std::byte *>(tensor + elements);
    if (from >= tensor_begin && from + rounded <= tensor_end) {
#pragma unroll 1
        for (int at = thread * 16; at < rounded; at += threads * 16)
            copy_async_past_l1(__cvta_shared_to_generic(place(at)), from + at);
        return;
    }
    // Beyond the tensor there is nothing to read.
    const int begin = from < tensor_begin ? 16 : 0;
    const int stop = from + rounded > tensor_end ? rounded - 16 : rounded;
#pragma unroll 1
    for (int at = thread * 16; at < rounded; at += threads * 16) {
        const uint32_t to = place(at);
        if (at >= begin && at < stop) {
            copy_async_past_l1(__cvta_shared_to_generic(to), from + at);
            continue;
        }
#pragma unroll 1
        for (int b = max(at, past); b < min(at + 16, bytes); b += sizeof(Type))
            store_shared_half(to - at + b,
                    *reinterpret_cast<const unsigned short *>(from + b));
    }
}

/// Zeros in so many bytes of shared memory, by all threads of a block.
__device__ __forceinline__ void clear_shared(uint4 *shared, size_t bytes) {
    for (auto i = static_cast<int>(threadIdx.x);
            i * 16 < static_cast<int>(bytes); i += static_cast<int>(blockDim.x))
        shared[i] = uint4 {};
    __syncthreads();
}

/// Pairs of elements from byte `address` of shared memory on, which `wide` (2) says is a
/// multiple of 4.
template <int wide>
class pairs_at {
public:
    __device__ __forceinline__ explicit pairs_at(uint32_t address = 0)
        : address_(address) {
        if constexpr (wide == 2) return;
        shift_ = (address & 2U) * 8;
        address_ &= ~3U;
    }
    /// Neighbouring pairs, so many bytes further on, a multiple of 4.
    template <int count>
    __device__ __forceinline__ void load(
            int offset, uint32_t (&pairs)[count]) const {
        uint32_t low = load_shared(address_ + offset);
#pragma unroll
        for (int i = 0; i < count; ++i) {
            pairs[i] = low;
            if (wide == 2 && i + 1 == count) return;
            low = load_shared(address_ + offset + 4 * i + 4);
            if constexpr (wide == 1)
                pairs[i] = __funnelshift_r(pairs[i], low, shift_);
        }
    }
    __device__ __forceinline__ uint32_t load(int offset) const {
        uint32_t pair[1];
        load(offset, pair);
        return pair[0];
    }
    __device__ __forceinline__ void advance(int bytes) {
        address_ += bytes;
    }

private:
    uint32_t address_;
    uint32_t shift_ = 0;
};

/// The window's rows of some channels in shared memory, `rows` of each (7 of planes, 1 of
/// lines). A row is the matrix of 16 * steps rows and eight columns that has
/// window[k - column - lead] in row k, and zeros.
template <int rows, int steps>
struct held_windows {
    static constexpr int elements = window_row_elements<steps>;
    static constexpr int row_bytes = 2 * elements * 2;
    static constexpr int channel_bytes = rows * row_bytes;
    uint32_t address;

    /// What follows __syncthreads, where all was zero, by all threads of a block.
    template <typename Type>
    __device__ __forceinline__ void fill(const Type *weights,
            const problem_shape &shape, int64_t first_channel,
            int channels) const {
        constexpr int slots = rows == 1 ? 16 * steps : 8;
        for (auto i = static_cast<int>(threadIdx.x);
                i < channels * rows * slots;
                i += static_cast<int>(blockDim.x)) {
            const int row = i / slots;
            const int r = row % rows;
            const int s = i % slots;
            if (s >= shape.along.kernel) continue;
            const auto bits = reinterpret_cast<const unsigned short &>(
                    weights[(first_channel + row / rows)
                                    * shape.weights_strides[0]
                            + (shape.to_src ? rows - 1 - r : r)
                                    * shape.weights_strides[1]
                            + (shape.to_src ? shape.along.kernel - 1 - s : s)
                                    * shape.weights_strides[2]]);
            const uint32_t to
                    = address + row * row_bytes + (window_row_zeros + s) * 2;
            store_shared_half(to, bits);
            store_shared_half(to + (elements - 1) * 2, bits);
        }
    }
    /// The matrices of a channel as multiply_matrices takes them, once all is there: rows
    /// 2t, 2t + 1 and 8 further on of column g.
    __device__ __forceinline__ void load(
            int channel, int lead, uint32_t (&window)[rows * steps][2]) const {
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const int tap = window_row_zeros + lane % 4 * 2 - lane / 4 - lead;
        const uint32_t at = address + channel * channel_bytes
                + tap % 2 * (row_bytes / 2) + tap / 2 * 4;
#pragma unroll
        for (int i = 0; i < rows * steps; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                window[i][half] = load_shared(at + i / steps * row_bytes
                        + i % steps * 32 + half * 16);
    }
};

/// sums + 0 * bits, of two 16-bit elements each: not zero any more once one of them
/// was infinite or NaN.
template <typename Type>
__device__ __forceinline__ uint32_t add_zero_times(
        uint32_t bits, uint32_t sums) {
    using pair = std::conditional_t<std::is_same_v<Type, __half>, __half2,
            __nv_bfloat162>;
    const uint32_t zeros = 0;
    const pair sum = __hfma2(reinterpret_cast<const pair &>(bits),
            reinterpret_cast<const pair &>(zeros),
            reinterpret_cast<const pair &>(sums));
    return reinterpret_cast<const uint32_t &>(sum);
}

/// Zeros stand for what is outside, and times an infinity they are NaN. So a thread with a
/// sum that is not finite takes those of its own that are NaN again from the definition, tap
/// by tap, and none that is outside. Others stay as they are: their bits may not depend on
/// what else their thread has, which is what made it look.
template <typename Type>
__device__ __noinline__ void take_again(Type &element, const Type *read,
        const Type *weights, const problem_shape &shape, int64_t image,
        int64_t channel, int h, int w) {
    const sum_of<Type> value = widen(element);
    if (value == value) return;
    const auto position_of = [&](const window_axis &axis, int x, int tap) {
        return x - axis.before + (shape.to_src ? axis.kernel - 1 - tap : tap);
    };
    const window_axis &down = shape.down;
    const window_axis &along = shape.along;
    read += (image * shape.channels + channel) * down.read * along.read;
    weights += channel * shape.weights_strides[0];
    sum_of<Type> total = 0;
    for (int kh = 0; kh < down.kernel; ++kh) {
        const int row = position_of(down, h, kh);
        if (!is_inside(row, down.read)) continue;
        for (int kw = 0; kw < along.kernel; ++kw) {
            const int column = position_of(along, w, kw);
            if (!is_inside(column, along.read)) continue;
            total += widen(read[int64_t {row} * along.read + column])
                    * widen(weights[kh * shape.weights_strides[1]
                            + kw * shape.weights_strides[2]]);
        }
    }
    element = narrow<Type>(total);
}

/// Matrices of a gradient of weights in shared memory, 16x8 sums each, those of a warp one
/// below the other, and the warps' too.
template <int count>
struct held_sums {
    static constexpr int columns = 8;
    static constexpr int warp_rows = 16 * count;
    float *sums;

    /// Those of each warp, by all threads of a block; what follows sees all of them.
    __device__ __forceinline__ void store(
            const float (&products)[count][4]) const {
        const auto thread = static_cast<int>(threadIdx.x);
        const int lane = thread % 32;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < count; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[(thread / 32 * warp_rows + 16 * i + lane / 4 + e / 2 * 8)
                                * columns
                        + lane % 4 * 2 + e % 2]
                        = products[i][e];
        __syncthreads();
    }
    /// sum + the diagonal that begins in a warp's row.
    __device__ __forceinline__ float add_diagonal(
            float sum, int warp, int row) const {
        for (int column = 0; column < columns; ++column)
            sum += sums[(warp * warp_rows + row + column) * columns + column];
        return sum;
    }
};

} // namespace gradnn::gpu::depthwise
