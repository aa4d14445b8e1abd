// Depthwise on tensor cores: what the two kernels share.
#pragma once

#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/taps.cuh"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/tensor_cores.cuh"

namespace gradnn::gpu::depthwise::matrices {

/// Copies `count` elements by all threads of a block: single ones up to an address of a
/// multiple of 16 bytes, vectors, single ones.
template <typename Type>
__device__ __forceinline__ void copy_out(
        Type *to, const Type *from, int count) {
    constexpr int each = elements_of_16_bytes<Type>;
    const auto past = static_cast<int>(
            (reinterpret_cast<uintptr_t>(to) & 15U) / sizeof(Type));
    const int head = min(count, (each - past) % each);
    const int vectors = (count - head) / each;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    for (int v = thread; v < vectors; v += threads) {
        const int i = head + v * each;
        pack<Type, each>::load(from + i).stream(to + i);
    }
    const int tail = head + vectors * each;
    for (int single = thread; single < head + count - tail; single += threads) {
        const int i = single < head ? single : single - head + tail;
        to[i] = from[i];
    }
}

/// Rows of read that a block holds, and of written: [begin, end) of each plane.
struct held_rows {
    int begin;
    int end;
};

/// Pairs of elements, one after the other from byte `address` on, which `wide` (2)
/// says is a multiple of 4.
template <int wide, int count>
__device__ __forceinline__ void load_pairs(
        uint32_t address, uint32_t (&pairs)[count]) {
    if constexpr (wide == 2) {
#pragma unroll
        for (int i = 0; i < count; ++i)
            pairs[i] = load_shared(address + 4 * i);
    } else {
        const uint32_t shift = (address & 2U) * 8;
        address &= ~3U;
        uint32_t low = load_shared(address);
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const uint32_t high = load_shared(address + 4 * i + 4);
            pairs[i] = __funnelshift_r(low, high, shift);
            low = high;
        }
    }
}

/// Bits of two neighbouring columns of which those outside are zeros. With `wide`
/// both are even numbers, column and columns.
template <int wide>
__device__ __forceinline__ uint32_t pair_mask(int column, int columns) {
    if constexpr (wide == 2) return is_inside(column, columns) ? ~0U : 0U;
    return (is_inside(column, columns) ? 0xffffU : 0U)
            | (is_inside(column + 1, columns) ? 0xffff0000U : 0U);
}

/// Planes of a tensor as a block holds them: rows of each, which begin as far past a
/// multiple of 16 bytes as they do in the tensor.
template <typename Type>
struct held_planes {
    const Type *tensor;
    const Type *end;
    int64_t plane; ///< elements of one
    int columns;
    held_rows held;
    int gap; ///< bytes between rows
    exact_divider by_vectors; ///< of a row, where there is a gap

    __device__ int rows() const { return held.end - held.begin; }
    __device__ int elements() const { return rows() * columns; }
    /// Bytes from row to row.
    __device__ int pitch() const {
        return columns * static_cast<int>(sizeof(Type)) + gap;
    }
    /// The first element that is held of the tensor's plane `number`.
    __device__ int64_t first(int64_t number) const {
        return number * plane + held.begin * columns;
    }
    /// Bytes that it lies past a multiple of 16.
    __device__ int past(int64_t number) const {
        const auto low
                = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(tensor));
        const auto elements
                = static_cast<uint32_t>(number) * static_cast<uint32_t>(plane)
                + static_cast<uint32_t>(held.begin * columns);
        return static_cast<int>((low + elements * sizeof(Type)) & 15U);
    }
    /// Whether there may be such bytes.
    __device__ bool any_past() const {
        return ((static_cast<uint32_t>(reinterpret_cast<uintptr_t>(tensor))
                        | static_cast<uint32_t>(plane) * sizeof(Type)
                        | static_cast<uint32_t>(held.begin * columns)
                                * sizeof(Type))
                       & 15U)
                != 0;
    }
    /// Submits the copy of a plane to what follows `to`, a multiple of 16 bytes of
    /// shared memory, with what lies between that and the plane, and zeros after
    /// it, where a plane that began further on may have ended; the share of thread
    /// `thread` of so many.
    __device__ __forceinline__ void fetch(
            std::byte *to, int64_t number, int thread, int threads) const {
        const auto *from
                = reinterpret_cast<const std::byte *>(tensor + first(number));
        const int before
                = static_cast<int>(reinterpret_cast<uintptr_t>(from) & 15U);
        from -= before;
        const int bytes = before + elements() * static_cast<int>(sizeof(Type));
        int at = thread * 16;
        // Before the tensor there is nothing to read.
        if (at < before && from < reinterpret_cast<const std::byte *>(tensor)) {
            for (int b = before; b < min(16, bytes); b += sizeof(Type))
                *reinterpret_cast<Type *>(to + b)
                        = *reinterpret_cast<const Type *>(from + b);
            at += threads * 16;
        }
        if (gap != 0) {
            for (; at < bytes; at += threads * 16)
                copy_async_past_l1(to + at
                                + static_cast<int>(by_vectors.quotient(at / 16))
                                        * gap,
                        from + at);
            return;
        }
        if (from + bytes + 32 <= reinterpret_cast<const std::byte *>(end)) {
            for (; at < bytes + 16; at += threads * 16)
                copy_async_up_to_16(
                        to + at, from + at, min(16, max(0, bytes - at)));
            return;
        }
        // The same without an address beyond the tensor.
        for (; at < bytes + 16; at += threads * 16) {
            if (at + 16 <= bytes) {
                copy_async_past_l1(to + at, from + at);
                continue;
            }
            *reinterpret_cast<uint4 *>(to + at) = uint4 {};
            for (int b = at; b < bytes; b += sizeof(Type))
                *reinterpret_cast<Type *>(to + b)
                        = *reinterpret_cast<const Type *>(from + b);
        }
    }
};

/// What a block has, from its number: a band of rows of some neighbouring channels,
/// of every `image_parts`-th stage.
struct block_share {
    int band;
    int image_part;
    int64_t first_channel;
    int planes;
    int stages; ///< of all blocks
    held_rows read;
    held_rows written;

    __device__ block_share(const problem_shape &shape, const work_cut &cut)
        : shape_(shape), images_(cut.images) {
        const window_axis &down = shape.axes[1];
        const auto block = static_cast<int>(blockIdx.x);
        band = block % cut.bands;
        image_part = block / cut.bands % cut.image_parts;
        first_channel
                = int64_t {block / cut.bands / cut.image_parts} * cut.planes;
        planes = static_cast<int>(
                min(int64_t {cut.planes}, shape.channels - first_channel));
        stages = static_cast<int>((shape.images + images_ - 1) / images_);
        read = {0, down.read};
        written = {0, down.written};
        if (cut.bands == 1) return;
        const int before = taps_before(down, shape.to_src);
        written.begin = band * cut.band_rows;
        written.end = min(down.written, written.begin + cut.band_rows);
        read.begin = max(0, min(written.begin - before, down.read));
        read.end = max(read.begin,
                min(written.end - before + down.kernel - 1, down.read));
    }

    /// Images of a stage.
    __device__ int images(int stage) const {
        return static_cast<int>(min(
                int64_t {images_}, shape_.images - int64_t {stage} * images_));
    }
    __device__ int64_t image(int stage, int i) const {
        return int64_t {stage} * images_ + i;
    }
    /// The tensors' plane of image i of a stage and the first channel.
    __device__ int64_t first_plane(int stage, int i) const {
        return image(stage, i) * shape_.channels + first_channel;
    }

private:
    const problem_shape &shape_;
    int images_;
};

/// A warp's share: where there are fewer planes than warps, several have one.
struct warp_share {
    int first_plane; ///< and every block_warps'th
    int share; ///< of so many
    int shares;

    __device__ warp_share(int warp, int planes)
        : first_plane(warp % planes),
          share(planes < block_warps ? warp / planes : 0),
          shares(max(1, block_warps / planes)) {}
};

/// Makes zeros of what came along before a stage's planes, place(i, plane) of image
/// i: the last row of zeros before each. By all threads of a block; returns whether
/// there was anything, then to be followed by __syncthreads.
template <typename Type, typename Place>
__device__ __forceinline__ bool clear_before_planes(
        const held_planes<Type> &held, const block_share &block, int stage,
        const Place &place) {
    if (!held.any_past()) return false;
    const int count = block.images(stage) * block.planes;
    for (auto i = static_cast<int>(threadIdx.x); i < count;
            i += block_warps * 32) {
        const int image = i / block.planes;
        const int plane = i - image * block.planes;
        const int past = held.past(block.first_plane(stage, image) + plane);
        for (int b = 0; b < past; b += 2)
            store_shared_half(place(image, plane) + b, 0);
    }
    return true;
}

} // namespace gradnn::gpu::depthwise::matrices
