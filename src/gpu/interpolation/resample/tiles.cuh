// Blocks walk through tiles of shared memory, of which some are on their way by bulk copies.
#pragma once

#include "gpu/interpolation/resample/walk.cuh"

namespace gradnn::gpu::resample {

/// To a position of the outer axes.
template <problem_specification p, typename Type>
__device__ __forceinline__ void move_to_outer(
        unsigned outer, const Type *&read, Type *&written) {
#pragma unroll
    for (int i = 0; i < most_outer; ++i) {
        if (p.outer[i] == 1) continue;
        const unsigned at = outer % p.outer[i];
        outer /= p.outer[i];
        read += at * p.outer_read[i];
        written += at * p.outer_write[i];
    }
}

template <specification_of_kernel s>
struct tile_of_block {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    static constexpr bool walks = p.walk.is_there();
    static constexpr axis first_axis = walks ? p.walk : p.column;
    using type = storage<p.type>;
    using sum_type = sum<p.type>;
    static constexpr int in_16_bytes = 16 / static_cast<int>(sizeof(type));

    int outer,
            strip; ///< the first outer position; which part of the first axis
    int from, end; ///< positions of the first axis that it reads
    const type *read; ///< of the first outer position
    type *written;

    __device__ __forceinline__ void find(int number,
            const tables<sum_type> &map, const type *read_from,
            type *written_to) {
        strip = number % g.tile_strips;
        outer = number / g.tile_strips * c.planes;
        read = read_from;
        written = written_to;
        move_to_outer<p>(static_cast<unsigned>(outer), read, written);
        const place *const places = walks ? map.walk.places : map.column.places;
        const place last
                = places[least((strip + 1) * g.tile_written, first_axis.written)
                        - 1];
        from = places[strip * g.tile_written].first;
        end = last.first + last.count;
        if (end <= from) end = from;
    }
    /// Elements that are copied, and where the first one lies in 16 bytes.
    __device__ __forceinline__ const type *begin_of_copy() const {
        return read + from * first_axis.read_pitch;
    }
    __device__ __forceinline__ int elements_of_copy() const {
        if (end == from) return 0;
        const int planes
                = c.planes == 1 ? 1 : least(c.planes, g.outers - outer);
        return static_cast<int>((planes - 1) * p.outer_read[0]
                + (end - from - 1) * first_axis.read_pitch + row_extent(p));
    }
    __device__ __forceinline__ static int place_in_16_bytes(const type *at) {
        return static_cast<int>(
                reinterpret_cast<uintptr_t>(at) % 16 / sizeof(type));
    }
    __device__ __forceinline__ static type *stage(int slot) {
        return reinterpret_cast<type *>(jit::dynamic_shared() + barrier_bytes
                + slot * g.stage_bytes + stage_margin);
    }
    __device__ __forceinline__ static jit::copy_barrier *barrier(int slot) {
        return reinterpret_cast<jit::copy_barrier *>(jit::dynamic_shared())
                + slot;
    }

    /// By all threads: the tile's elements to a stage, which keeps their places in 16 bytes.
    /// Whole 16 bytes, but at the tensor's end.
    __device__ __forceinline__ void copy(int slot, const type *tensor) const {
        const type *const begin = begin_of_copy();
        const int past = place_in_16_bytes(begin);
        const type *const aligned = begin - past;
        const int count = past + elements_of_copy();
        const long long left = tensor + tensor_extent(p) - aligned;
        int whole = ceil_div(count, in_16_bytes) * in_16_bytes;
        if (whole > left) whole -= in_16_bytes;
        if (elements_of_copy() == 0) whole = 0;
        type *const to = stage(slot);
        const int thread = static_cast<int>(threadIdx.x);
        if (thread < count - whole && elements_of_copy() > 0)
            to[whole + thread] = aligned[whole + thread];
        if constexpr (p.bulk_copies) {
            if (thread == 0) {
                jit::expect_copies(barrier(slot), whole * sizeof(type));
                if (whole > 0)
                    jit::copy_bulk(
                            to, aligned, whole * sizeof(type), barrier(slot));
            }
        } else {
            for (int i = thread * in_16_bytes; i < whole;
                    i += c.threads * in_16_bytes)
                *reinterpret_cast<uint4 *>(to + i)
                        = *reinterpret_cast<const uint4 *>(aligned + i);
        }
    }

    __device__ __forceinline__ void compute(
            int slot, const tables<sum_type> &map) const {
        const type *const here
                = stage(slot) + place_in_16_bytes(begin_of_copy());
        for (int number = static_cast<int>(threadIdx.x); number < g.tile_items;
                number += c.threads) {
            unsigned rest = number;
            const int vector = rest % g.vectors;
            rest /= g.vectors;
            typename walk<s>::item at {0, 0, 0, 0};
            int plane = 0;
            if constexpr (walks) {
                at.tile = rest % g.tiles;
                rest /= g.tiles;
                at.middle = rest % g.middles;
                rest /= g.middles;
                at.begin = strip * g.tile_written + rest % c.parts * c.strip;
                at.end = least(at.begin + c.strip, p.walk.written);
                plane = rest / c.parts;
                if (at.begin >= p.walk.written) continue;
            } else {
                at.tile = strip * c.strip + rest % c.strip;
                plane = rest / c.strip;
                if (at.tile >= g.tiles) continue;
            }
            if (c.planes > 1 && outer + plane >= g.outers) continue;
            const type *from_here
                    = here + plane * p.outer_read[0] + vector * c.vector;
            if constexpr (!walks) from_here -= from * p.column.read_pitch;
            walk<s> of;
            of.run(at, map, from_here, from,
                    written + plane * p.outer_write[0] + vector * c.vector);
        }
    }
};

template <specification_of_kernel s>
__device__ void resample_of_tiles(const storage<s.of.type> *read,
        storage<s.of.type> *written, const tables<sum<s.of.type>> &map) {
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_of(s);
    using tile = tile_of_block<s>;
    const int blocks = static_cast<int>(gridDim.x);
    int number = static_cast<int>(blockIdx.x);
    if constexpr (s.of.bulk_copies) {
        if (threadIdx.x == 0)
            for (int slot = 0; slot < c.stages; ++slot)
                jit::begin_barrier(tile::barrier(slot));
        __syncthreads();
    }
    tile at;
    for (int slot = 0; slot < c.stages; ++slot)
        if (number + slot * blocks < g.all_tiles) {
            at.find(number + slot * blocks, map, read, written);
            at.copy(slot, read);
        }
    for (int turn = 0; number < g.all_tiles; number += blocks, ++turn) {
        const int slot = turn % c.stages;
        at.find(number, map, read, written);
        // Also for the last elements of the tensor, which threads copy.
        __syncthreads();
        if constexpr (s.of.bulk_copies)
            jit::wait_for_copies(tile::barrier(slot), turn / c.stages % 2);
        at.compute(slot, map);
        __syncthreads();
        const int later = number + c.stages * blocks;
        if (later < g.all_tiles) {
            tile next;
            next.find(later, map, read, written);
            next.copy(slot, read);
        }
    }
}

} // namespace gradnn::gpu::resample
