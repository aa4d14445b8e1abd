// Depthwise windows of 7x7 on tensor cores: what a block of either gradient has of both
// tensors, and how it comes to shared memory, stage by stage.
#pragma once

#include "gpu/convolution/depthwise/device.cuh"

namespace gradnn::gpu::depthwise {

/// Bits of two neighbouring columns of which those outside are zeros. With `wide`
/// both are even numbers, column and columns.
template <int wide>
__device__ __forceinline__ uint32_t pair_mask(int column, int columns) {
    if constexpr (wide == 2) return is_inside(column, columns) ? ~0U : 0U;
    return (is_inside(column, columns) ? 0xffffU : 0U)
            | (is_inside(column + 1, columns) ? 0xffff0000U : 0U);
}

/// Rows of each plane that a block holds: [begin, end).
struct held_rows {
    int begin;
    int end;
};

/// Planes of a tensor as a block holds them: rows of each, which begin as far past a
/// multiple of 16 bytes as they do in the tensor.
template <typename Type>
struct held_planes {
    const Type *tensor;
    int plane_rows; ///< of the tensor
    int columns;
    held_rows held;
    const plane_layout &layout;

    __device__ int rows() const { return held.end - held.begin; }
    __device__ int elements() const { return rows() * columns; }
    /// Bytes from row to row.
    __device__ int pitch() const {
        return columns * static_cast<int>(sizeof(Type)) + layout.gap;
    }
    /// The first element that is held of the tensor's plane `number`.
    __device__ int64_t first(int64_t number) const {
        return number * plane_rows * columns + held.begin * columns;
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
    uint32_t base; ///< of shared memory
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

    __device__ plane_share(const problem_shape &of_shape,
            const work_cut &of_cut, const uint4 *shared)
        : shape(of_shape), cut(of_cut), base(shared_address(shared)) {
        auto rest = static_cast<int>(blockIdx.x);
        band = take(rest, cut.bands);
        image_part = take(rest, cut.image_parts);
        first_channel = int64_t {rest} * cut.planes;
        planes = static_cast<int>(
                min(int64_t {cut.planes}, shape.channels - first_channel));
        stages = static_cast<int>(ceil_div(shape.images, cut.images));
        const auto warp = static_cast<int>(threadIdx.x / 32);
        plane = warp % cut.planes;
        part = warp / cut.planes;
        parts = max(1, plane_warps / cut.planes);
        const window_axis &down = shape.down;
        read = {0, down.read};
        written = {0, down.written};
        if (cut.bands == 1) return;
        written.begin = band * cut.band_rows;
        written.end = min(down.written, written.begin + cut.band_rows);
        read.begin = max(0, min(written.begin - down.before, down.read));
        read.end = max(read.begin,
                min(written.end - down.before + down.kernel - 1, down.read));
    }

    template <typename Type>
    __device__ held_planes<Type> of_read(const Type *tensor) const {
        return {tensor, shape.down.read, shape.along.read, read, cut.read};
    }
    template <typename Type>
    __device__ held_planes<Type> of_written(const Type *tensor) const {
        return {tensor, shape.down.written, shape.along.written, written,
                cut.written};
    }
    /// Images of a stage.
    __device__ int images(int stage) const {
        return static_cast<int>(min(int64_t {cut.images},
                shape.images - int64_t {stage} * cut.images));
    }
    /// The tensors' plane of image i of a stage and the first channel.
    __device__ int64_t first_plane(int stage, int i) const {
        return (int64_t {stage} * cut.images + i) * shape.channels
                + first_channel;
    }
    /// Where in shared memory the copy of a plane of image i begins, at a multiple of 16.
    template <typename Type>
    __device__ uint32_t place(const held_planes<Type> &held, int buffer, int i,
            int of_plane) const {
        return base + held.layout.at
                + (buffer * cut.images + i) * cut.image_bytes
                + of_plane * held.layout.distance;
    }
    /// Submits copies of a stage's planes, by the warps that have them.
    template <typename... Types>
    __device__ __forceinline__ void fetch(
            int stage, int buffer, const held_planes<Types> &...tensors) const {
        const auto fetch_plane = [&](const auto &held, int i, int of_plane) {
            const uint32_t to = place(held, buffer, i, of_plane);
            fetch_elements(
                    held.tensor + held.first(first_plane(stage, i) + of_plane),
                    held.elements(), held.tensor,
                    shape.images * shape.channels * held.plane_rows
                            * held.columns,
                    part * 32 + static_cast<int>(threadIdx.x % 32), parts * 32,
                    [&](int at) {
                        const uint32_t row
                                = held.layout.by_vectors.quotient(at / 16);
                        return to + at
                                + static_cast<int>(row) * held.layout.gap;
                    });
        };
        const int count = images(stage);
        for (int i = 0; i < count; ++i)
            for (int each = plane; each < planes; each += plane_warps)
                (fetch_plane(tensors, i, each), ...);
        commit_copies();
    }
    /// Waits for the planes of a stage and submits copies of those of the block's next one. Zeros
    /// for what came along before and after those of read, and where planes that began further
    /// on may have ended. By all threads of a block.
    template <typename Type, typename... Types>
    __device__ __forceinline__ void begin_stage(int stage, int buffer,
            const held_planes<Type> &held,
            const held_planes<Types> &...others) const {
        wait_for_copies<0>();
        __syncthreads();
        if ((held.past(0) | held.past(1)) != 0) {
            const int bytes = held.elements() * static_cast<int>(sizeof(Type));
            for (auto n = static_cast<int>(threadIdx.x);
                    n < images(stage) * planes; n += plane_warps * 32) {
                const int i = n / planes;
                const int of_plane = n - i * planes;
                const uint32_t at = place(held, buffer, i, of_plane);
                const int past = held.past(first_plane(stage, i) + of_plane);
                for (int b = 0; b < past; b += 2)
                    store_shared_half(at + b, 0);
                for (int b = past + bytes; b < round_up(bytes + 14, 16); b += 2)
                    store_shared_half(at + b, 0);
            }
            __syncthreads();
        }
        if (stage + cut.image_parts < stages)
            fetch(stage + cut.image_parts, buffer ^ 1, held, others...);
    }
};

} // namespace gradnn::gpu::depthwise
