// Depthwise windows of 7x7 on tensor cores: what the kernels of both gradients share.
#pragma once

#include <type_traits>

#include "gpu/convolution/depthwise/device.cuh"

namespace gradnn::gpu::depthwise {

/// Copies `count` elements by all threads of a block: vectors of 16 bytes, but single ones
/// where `to` begins or ends within one.
template <typename Type>
__device__ __forceinline__ void copy_out(
        Type *to, const Type *from, int count) {
    constexpr int each = elements_of_16_bytes<Type>;
    const int past = bytes_past(to) / static_cast<int>(sizeof(Type));
    for (int i = static_cast<int>(threadIdx.x) * each - past; i < count;
            i += static_cast<int>(blockDim.x) * each)
        if (i >= 0 && i + each <= count)
            pack<Type, each>::load(from + i).stream(to + i);
        else
            for (int e = max(0, i); e < min(i + each, count); ++e)
                to[e] = from[e];
}

/// Rows of each plane that a block holds: [begin, end) of so many.
struct held_rows {
    int all;
    int begin;
    int end;
};

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
    int64_t planes; ///< of the tensor
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
        return number * held.all * columns + held.begin * columns;
    }
    /// Bytes that it lies past a multiple of 16.
    __device__ int past(int64_t number) const {
        return bytes_past(tensor + first(number));
    }
    /// Submits the copy of a plane to what follows `to`, a multiple of 16; the share of
    /// thread `thread` of so many.
    __device__ __forceinline__ void fetch(
            uint32_t to, int64_t number, int thread, int threads) const {
        fetch_elements(tensor + first(number), elements(), tensor,
                tensor + planes * held.all * columns, thread, threads,
                [&](int at) {
                    return to + at
                            + static_cast<int>(by_vectors.quotient(at / 16))
                            * gap;
                });
    }
    /// Once it is there: zeros for what came along before it and after it, and where a
    /// plane that began further on may have ended.
    __device__ __forceinline__ void clear_around(
            uint32_t to, int64_t number) const {
        const int begin = past(number);
        const int stop = begin + elements() * static_cast<int>(sizeof(Type));
        for (int b = 0; b < begin; b += 2)
            store_shared_half(to + b, 0);
        for (int b = stop; b < round_up(stop + 14 - begin, 16); b += 2)
            store_shared_half(to + b, 0);
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
        const window_axis &down = shape.down;
        const auto block = static_cast<int>(blockIdx.x);
        band = block % cut.bands;
        image_part = block / cut.bands % cut.image_parts;
        first_channel
                = int64_t {block / cut.bands / cut.image_parts} * cut.planes;
        planes = static_cast<int>(
                min(int64_t {cut.planes}, shape.channels - first_channel));
        stages = static_cast<int>((shape.images + images_ - 1) / images_);
        read = {down.read, 0, down.read};
        written = {down.written, 0, down.written};
        if (cut.bands == 1) return;
        written.begin = band * cut.band_rows;
        written.end = min(down.written, written.begin + cut.band_rows);
        read.begin = max(0, min(written.begin - down.before, down.read));
        read.end = max(read.begin,
                min(written.end - down.before + down.kernel - 1, down.read));
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
    int first_plane; ///< and every plane_warps'th
    int share; ///< of so many
    int shares;

    __device__ warp_share(int warp, int planes)
        : first_plane(warp % planes),
          share(planes < plane_warps ? warp / planes : 0),
          shares(max(1, plane_warps / planes)) {}
};

/// Zeros around a stage's planes, which are at place(i, plane) of image i, by all threads of
/// a block; returns whether there was anything, then to be followed by __syncthreads.
template <typename Type, typename Place>
__device__ __forceinline__ bool clear_around_planes(
        const held_planes<Type> &held, const block_share &block, int stage,
        const Place &place) {
    if ((held.past(0) | held.past(1)) == 0) return false;
    const int count = block.images(stage) * block.planes;
    for (auto i = static_cast<int>(threadIdx.x); i < count;
            i += plane_warps * 32) {
        const int image = i / block.planes;
        const int plane = i - image * block.planes;
        held.clear_around(
                place(image, plane), block.first_plane(stage, image) + plane);
    }
    return true;
}

} // namespace gradnn::gpu::depthwise
