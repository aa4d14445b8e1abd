// Depthwise windows of 7x7 on tensor cores: what the kernels of both gradients share.
#pragma once

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
};

/// What a block has, from its number: a band of rows of some neighbouring channels,
/// of every `image_parts`-th stage. And a warp of that: where there are fewer planes than
/// warps, several have one.
struct plane_share {
    const problem_shape &shape;
    const work_cut &cut;
    int band;
    int image_part;
    int64_t first_channel;
    int planes;
    int stages; ///< of all blocks
    held_rows read;
    held_rows written;
    int plane; ///< of the warp, and every plane_warps'th
    int part; ///< that the warp has of these, of so many
    int parts;

    __device__ plane_share(
            const problem_shape &of_shape, const work_cut &of_cut)
        : shape(of_shape), cut(of_cut) {
        const window_axis &down = shape.down;
        const auto block = static_cast<int>(blockIdx.x);
        band = block % cut.bands;
        image_part = block / cut.bands % cut.image_parts;
        first_channel
                = int64_t {block / cut.bands / cut.image_parts} * cut.planes;
        planes = static_cast<int>(
                min(int64_t {cut.planes}, shape.channels - first_channel));
        stages = static_cast<int>(ceil_div(shape.images, cut.images));
        read = {down.read, 0, down.read};
        written = {down.written, 0, down.written};
        const auto warp = static_cast<int>(threadIdx.x / 32);
        plane = warp % cut.planes;
        part = cut.planes < plane_warps ? warp / cut.planes : 0;
        parts = max(1, plane_warps / cut.planes);
        if (cut.bands == 1) return;
        written.begin = band * cut.band_rows;
        written.end = min(down.written, written.begin + cut.band_rows);
        read.begin = max(0, min(written.begin - down.before, down.read));
        read.end = max(read.begin,
                min(written.end - down.before + down.kernel - 1, down.read));
    }

    /// What is held of read, or of written.
    template <bool of_read, typename Type>
    __device__ held_planes<Type> held(const Type *tensor) const {
        return {tensor, shape.images * shape.channels,
                of_read ? shape.along.read : shape.along.written,
                of_read ? read : written,
                of_read ? cut.read_gap : cut.written_gap,
                of_read ? cut.by_read_vectors : cut.by_written_vectors};
    }
    /// Images of a stage.
    __device__ int images(int stage) const {
        return static_cast<int>(min(int64_t {cut.images},
                shape.images - int64_t {stage} * cut.images));
    }
    __device__ int64_t image(int stage, int i) const {
        return int64_t {stage} * cut.images + i;
    }
    /// The tensors' plane of image i of a stage and the first channel.
    __device__ int64_t first_plane(int stage, int i) const {
        return image(stage, i) * shape.channels + first_channel;
    }
    /// Submits the copy of a plane to what follows `to`, a multiple of 16, by the warps that
    /// have it.
    template <typename Type>
    __device__ __forceinline__ void fetch(
            const held_planes<Type> &held, uint32_t to, int64_t number) const {
        fetch_elements(held.tensor + held.first(number), held.elements(),
                held.tensor,
                held.tensor + held.planes * held.held.all * held.columns,
                part * 32 + static_cast<int>(threadIdx.x % 32), parts * 32,
                [&](int at) {
                    return to + at
                            + static_cast<int>(
                                      held.by_vectors.quotient(at / 16))
                            * held.gap;
                });
    }
    /// Once a stage's planes are at place(i, plane) of image i: zeros for what came along
    /// before and after them, and where planes that began further on may have ended. By all
    /// threads of a block; returns whether there was anything, then to be followed by
    /// __syncthreads.
    template <typename Type, typename Place>
    __device__ __forceinline__ bool clear_around(const held_planes<Type> &held,
            int stage, const Place &place) const {
        if ((held.past(0) | held.past(1)) == 0) return false;
        const int bytes = held.elements() * static_cast<int>(sizeof(Type));
        for (auto i = static_cast<int>(threadIdx.x); i < images(stage) * planes;
                i += plane_warps * 32) {
            const int image = i / planes;
            const uint32_t at = place(image, i - image * planes);
            const int past
                    = held.past(first_plane(stage, image) + i - image * planes);
            for (int b = 0; b < past; b += 2)
                store_shared_half(at + b, 0);
            for (int b = past + bytes; b < round_up(bytes + 14, 16); b += 2)
                store_shared_half(at + b, 0);
        }
        return true;
    }
};

} // namespace gradnn::gpu::depthwise
