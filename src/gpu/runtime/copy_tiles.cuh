// The kernels of copy.cu that go through tiles in shared memory. Mover: see
// copy_kernels.cuh.
#pragma once

#include <type_traits>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"
#include "gpu/runtime/copy_shape.hpp"

namespace gradnn::gpu::copies {

/// Where a tile is, and how much of it, along the first three axes.
struct tile_place {
    int64_t src = 0;
    int64_t dst = 0;
    int extents[3] = {1, 1, 1}; ///< that are written
    int copied = 0; ///< along axis 0
};

__device__ inline tile_place find_tile(
        const shape &of, const tiling &tiles, int64_t number) {
    tile_place place;
    auto rest = static_cast<uint32_t>(number);
    for (int axis = 0; axis < of.rank; ++axis) {
        const int64_t position = take(rest, tiles.along[axis]);
        const int64_t at = axis < 3 ? position * tiles.dims[axis] : position;
        place.src += at * of.src_strides[axis];
        place.dst += at * of.dst_strides[axis];
        if (axis >= 3) continue;
        const auto left = [&](int64_t end) {
            const int64_t elements = end < at ? 0 : end - at;
            return elements < tiles.dims[axis] ? static_cast<int>(elements)
                                               : tiles.dims[axis];
        };
        place.extents[axis] = left(of.extent(axis));
        if (axis == 0) place.copied = left(of.dims[0]);
    }
    return place;
}

/// Moves `width` elements along the contiguous axis at a time: two of 16 bits as one
/// word, or one.
template <typename Mover, int width>
struct unit {
    using value = typename Mover::value;
    using word = std::conditional_t<width == 2, uint32_t, value>;

    __device__ static word load(const shape &of, const void *src, int64_t at) {
        if constexpr (width == 2)
            return *reinterpret_cast<const word *>(
                    static_cast<const value *>(src) + at);
        else
            return Mover::load(of, src, at);
    }
    /// Of rows of shared memory that lie `pitch` apart.
    __device__ static void store(const shape &of, void *dst, int64_t at,
            const value *staged, int pitch) {
        if constexpr (width == 2)
            *reinterpret_cast<word *>(static_cast<value *>(dst) + at)
                    = word {staged[0]} | word {staged[pitch]} << 16;
        else
            Mover::store(of, dst, at, staged[0]);
    }
};

/// Where a thread is among the lines of a tile: rows, which lie along axis 1, or columns,
/// along axis 0. They are numbered along the other of the two, then along axis 2;
/// `flat`: the tile has one position of axis 2.
template <typename Offset, bool flat>
struct line_walk {
    int number; ///< of a line
    int at; ///< its position along the other axis
    Offset offset; ///< of its first element in the tensor
    int place; ///< and in shared memory

    /// Of offset and place: what lies between neighbours along the first axis, and
    /// along axis 2.
    __device__ line_walk(const line_steps &steps, int first, int64_t along,
            int64_t next, int place_along, int place_next)
        : number(first) {
        const auto turn = flat ? 0
                               : static_cast<int>(steps.dim.quotient(
                                       static_cast<uint32_t>(first)));
        const auto dim = static_cast<int>(steps.dim.by);
        const auto offset_along = static_cast<Offset>(along);
        const auto offset_next = static_cast<Offset>(next);
        at = first - turn * dim;
        offset = at * offset_along + turn * offset_next;
        place = at * place_along + turn * place_next;
        const int step = flat ? steps.lines : steps.along;
        const int next_step = flat ? 0 : steps.next;
        step_ = step * offset_along + next_step * offset_next;
        wrap_ = offset_next - dim * offset_along;
        place_step_ = step * place_along + next_step * place_next;
        place_wrap_ = place_next - dim * place_along;
    }

    __device__ void go_on(const line_steps &steps) {
        number += steps.lines;
        offset += step_;
        place += place_step_;
        if constexpr (!flat) {
            at += steps.along;
            if (at < static_cast<int>(steps.dim.by)) return;
            at -= static_cast<int>(steps.dim.by);
            offset += wrap_;
            place += place_wrap_;
        } else {
            at = number;
        }
    }

private:
    Offset step_, wrap_;
    int place_step_, place_wrap_;
};

template <typename Mover, typename Offset, int load_width, int store_width,
        bool flat>
__device__ void move_tiles(
        const void *src, void *dst, const shape &of, const tiling &tiles) {
    using value = typename Mover::value;
    using loads = unit<Mover, load_width>;
    using stores = unit<Mover, store_width>;
    extern __shared__ uint4 copy_shared[];
    auto *const staged = reinterpret_cast<value *>(copy_shared);
    const word_of_thread load(tiles.rows, threadIdx.x);
    const word_of_thread store(tiles.columns, threadIdx.x);
    // Their first elements along the lines.
    const int x_1 = load_width * load.word;
    const int x_0 = store_width * store.word;
    const int plane = tiles.dims[0] * tiles.pitch;
    const line_walk<Offset, flat> first_row(tiles.rows, load.line,
            of.src_strides[0], of.src_strides[2], tiles.pitch, plane);
    const line_walk<Offset, flat> first_column(tiles.columns, store.line,
            of.dst_strides[1], of.dst_strides[2], 1, plane);
    for (int64_t number = blockIdx.x; number < tiles.count;
            number += gridDim.x) {
        const tile_place place = find_tile(of, tiles, number);
        const char *const from = static_cast<const char *>(src)
                + (place.src + x_1) * Mover::bytes(of.src_type);
        char *const to = static_cast<char *>(dst)
                + (place.dst + x_0 * of.dst_strides[0])
                        * Mover::bytes(of.dst_type);
        int rows = flat ? place.extents[0] : tiles.dims[0] * place.extents[2];
        if (x_1 >= place.extents[1]) rows = 0;
        using word = typename loads::word;
        const auto staged_word = [&](const auto &row) {
            return reinterpret_cast<word *>(staged + row.place + x_1);
        };
        if constexpr (Mover::moves_bits && sizeof(word) >= 4) {
            for (auto row = first_row; row.number < rows;) {
#pragma unroll
                for (int i = 0; i < unroll; ++i) {
                    copy_async_if<sizeof(word)>(
                            row.number < rows && row.at < place.copied,
                            staged_word(row),
                            reinterpret_cast<const value *>(from) + row.offset);
                    row.go_on(tiles.rows);
                }
            }
            commit_copies();
            if (place.copied < place.extents[0])
                for (auto row = first_row; row.number < rows;
                        row.go_on(tiles.rows))
                    if (row.at >= place.copied) *staged_word(row) = {};
            wait_for_copies<0>();
        } else {
            for (auto row = first_row; row.number < rows;) {
                word words[unroll];
                auto loaded = row;
#pragma unroll
                for (int i = 0; i < unroll; ++i) {
                    words[i] = {};
                    if (loaded.number < rows && loaded.at < place.copied)
                        words[i] = loads::load(of, from, loaded.offset);
                    loaded.go_on(tiles.rows);
                }
#pragma unroll
                for (int i = 0; i < unroll; ++i) {
                    if (row.number < rows) *staged_word(row) = words[i];
                    row.go_on(tiles.rows);
                }
            }
        }
        __syncthreads();
        int columns
                = flat ? place.extents[1] : tiles.dims[1] * place.extents[2];
        if (x_0 >= place.extents[0]) columns = 0;
        const value *const mine
                = staged + (columns > 0 ? x_0 * tiles.pitch : 0);
#pragma unroll 4
        for (auto column = first_column; column.number < columns;
                column.go_on(tiles.columns))
            if (flat || column.at < place.extents[1])
                stores::store(of, to, column.offset, mine + column.place,
                        tiles.pitch);
        __syncthreads();
    }
}

/// Tiles through shared memory: read along axis 1, along which src is contiguous,
/// written along axis 0, along which dst is. A thread keeps its place in the lines and
/// goes from line to line. Offset: of elements within a tile.
template <typename Mover, typename Offset, int load_width = 1,
        int store_width = 1>
__global__ void __launch_bounds__(threads, 5) tiles_kernel(const void *src,
        void *dst, const __grid_constant__ shape of,
        const __grid_constant__ tiling tiles) {
    wait_and_let_later_work_start();
    if (tiles.dims[2] == 1)
        move_tiles<Mover, Offset, load_width, store_width, true>(
                src, dst, of, tiles);
    else
        move_tiles<Mover, Offset, load_width, store_width, false>(
                src, dst, of, tiles);
}

} // namespace gradnn::gpu::copies
