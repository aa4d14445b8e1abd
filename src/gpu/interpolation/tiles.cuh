// Tiles of shared memory: blocks walk through them, some on their way by copies.
#pragma once

#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::resample {

/// A tile: what of a problem it has, and the copies to it and from it.
template <const specification_of_kernel &s>
struct kernel_of<s>::tile {
    static constexpr bool walks = p.walk.is_there();
    static constexpr axis first_axis = first_axis_of(p);
    static constexpr int in_16_bytes = 16 / static_cast<int>(sizeof(type));

    int outer; ///< the first outer position
    int strip; ///< which part of the first axis
    int from, end; ///< positions of the first axis that it reads
    const type *read; ///< of the first outer position
    type *written;

    /// Strips of one outer position lie behind one another where they share rows; else the
    /// outer positions of one strip do, whose columns threads keep.
    __device__ __forceinline__ void find(int number,
            const tables<sum_type> &map, const type *read_from,
            type *written_to) {
        constexpr int outers = ceil_div(g.outers, c.planes);
        strip = walks ? number % g.tile_strips : number / outers;
        outer = walks ? number / g.tile_strips : number % outers;
        outer *= c.planes;
        read = read_from;
        written = written_to;
        move_to_outer<p>(static_cast<unsigned>(outer), read, written);
        if constexpr (g.tile_strips == 1) {
            from = 0;
            end = first_axis.read;
        } else {
            const place *const places
                    = walks ? map.walk.places : map.column.places;
            const place last = places[least((strip + 1) * g.tile_written,
                                              first_axis.written)
                    - 1];
            from = places[strip * g.tile_written].first;
            end = most(from, last.first + last.count);
        }
    }
    __device__ __forceinline__ const type *begin_of_copy() const {
        return read + from * first_axis.read_pitch;
    }
    /// Of an element, in bytes.
    __device__ __forceinline__ static int place_in(int bytes, const type *at) {
        return static_cast<int>(reinterpret_cast<uintptr_t>(at) % bytes);
    }
    __device__ __forceinline__ static type *in_shared(int byte) {
        return reinterpret_cast<type *>(jit::dynamic_shared() + byte);
    }
    /// Bytes of shared memory ahead of a stage, and of what gathers, at its places in 16 bytes.
    __device__ __forceinline__ static int stage(int slot) {
        return g.table_bytes + g.gathered_bytes + slot * g.stage_bytes
                + stage_margin;
    }
    static constexpr int gathered = g.table_bytes;

    /// The first element that is written.
    __device__ __forceinline__ type *begin_of_written() const {
        return written
                + strip * g.tile_written
                * static_cast<long long>(first_axis.write_pitch);
    }
    /// Where threads write the first outer position: there or to what gathers.
    __device__ __forceinline__ type *destination() const {
        if constexpr (!c.gathers) return written;
        return in_shared(gathered + place_in(16, begin_of_written())
                - strip * g.tile_written
                        * static_cast<int>(
                                first_axis.write_pitch * sizeof(type)));
    }
    template <int count>
    __device__ __forceinline__ static void finish(
            type *to, const type *from, const fused_places &others) {
        const auto made = jit::with_epilogue(
                p, jit::elements<p.type, count>::load(from), to, others);
        made.stream(to);
    }
    /// By all threads, from what gathered.
    __device__ __forceinline__ void flush(const fused_places &others) const {
        type *const begin = begin_of_written();
        const int planes = least(c.planes, g.outers - outer);
        const int positions = least(
                g.tile_written, first_axis.written - strip * g.tile_written);
        const int past = place_in(16, begin) / static_cast<int>(sizeof(type));
        const int count = static_cast<int>(dense_step(p)) * positions * planes;
        const int thread = static_cast<int>(threadIdx.x);
        for (int i = thread * in_16_bytes; i < past + count;
                i += c.threads * in_16_bytes) {
            const type *const from_here = in_shared(gathered) + i;
            type *const to = begin + (i - past);
            if (i >= past && i + in_16_bytes <= past + count) {
                finish<in_16_bytes>(to, from_here, others);
                continue;
            }
            for (int j = 0; j < in_16_bytes; ++j)
                if (i + j >= past && i + j < past + count)
                    finish<1>(to + j, from_here + j, others);
        }
    }

    /// By all threads: the tile's elements to a stage, which keeps their places in 16 bytes.
    __device__ __forceinline__ void copy(int slot, const type *tensor) {
        const int thread = static_cast<int>(threadIdx.x);
        // From a sector on: else every second copy reads one that the copy before it has read.
        const int past = place_in(sector, begin_of_copy())
                / static_cast<int>(sizeof(type));
        const type *const begin = begin_of_copy() - past;
        const int ahead = begin < tensor ? static_cast<int>(tensor - begin) : 0;
        type *const to = in_shared(stage(slot));
        const int planes
                = c.planes == 1 ? 1 : least(c.planes, g.outers - outer);
        // Where there is nothing to read it may begin beyond the tensor.
        const int count = end == from ? 0
                                      : past
                        + static_cast<int>((planes - 1) * p.outer_read[0]
                                + rows_extent(p, end - from));
        // At the tensor's end some elements are beyond the last whole 16 bytes.
        int whole = ceil_div(count, in_16_bytes) * in_16_bytes;
        if (whole > tensor + tensor_extent(p) - begin)
            whole = most(0, whole - in_16_bytes);
        const int rest = most(0, count - whole);
        if (thread < rest) to[whole + thread] = begin[whole + thread];
        constexpr int step = c.threads * in_16_bytes;
        const int first = ahead + thread * in_16_bytes;
        const type *next = begin + first;
        type *place = to + first;
#pragma unroll 4
        for (int left = whole - first; left > 0; left -= step) {
            copy_async_past_l1(place, next);
            next += step;
            place += step;
        }
    }

    /// What a thread has of it in a stage.
    __device__ __forceinline__ void compute(lanes_of_thread<s, s> &lanes,
            int slot, const tables<sum_type> &map) const {
        const auto *const here
                = in_shared(stage(slot) + place_in(sector, begin_of_copy())
                        - (walks ? 0 : from * p.column.read_pitch)
                                * static_cast<int>(sizeof(type)));
        auto *const to = destination();
        const int planes = least(c.planes, g.outers - outer);
        lanes.template each_item<2>([&](walk &of, int inner, int number) {
            // Items of different planes are neighbours, so that threads side by side do the same;
            // where they write to memory those of a plane, so that fewer sectors are left in part.
            constexpr int of_plane = g.lane_items / c.planes;
            const int plane = c.gathers ? number % c.planes : number / of_plane;
            int rest = c.gathers ? number / c.planes : number % of_plane;
            if (g.outers % c.planes != 0 && plane >= planes) return;
            typename walk::item item {0, 0, 0};
            if constexpr (walks) {
                item.middle = take_part(rest, p.middle.written);
                item.begin = strip * g.tile_written + rest * c.strip;
                item.end = least(item.begin + c.strip, p.walk.written);
                if (p.walk.written % g.tile_written != 0
                        && item.begin >= p.walk.written)
                    return;
            }
            of.run(item, map, here + plane * p.outer_read[0] + inner, from,
                    to + plane * p.outer_write[0] + inner);
        });
    }

    /// The maps of walk and middle in shared memory, by all threads; a __syncthreads is to follow.
    __device__ __forceinline__ static tables<sum_type> tables_of_block(
            const tables<sum_type> &map) {
        tables<sum_type> near = map;
        char *to = jit::dynamic_shared();
        const auto keep = [&]<typename Value>(const Value *&values, int count) {
            Value *const kept = reinterpret_cast<Value *>(to);
            for (int i = static_cast<int>(threadIdx.x); i < count;
                    i += c.threads)
                kept[i] = values[i];
            values = kept;
            to += (count * sizeof(Value) + table_alignment - 1)
                    / table_alignment * table_alignment;
        };
        if constexpr (g.table_bytes > 0 && p.walk.is_there()) {
            keep(near.steps, p.walk.read);
            keep(near.walk.places, p.walk.written);
        }
        if constexpr (g.table_bytes > 0 && p.middle.is_there()) {
            keep(near.middle.places, p.middle.written);
            keep(near.middle.weights, p.middle.written * p.middle.most_taps);
        }
        return near;
    }

    __device__ static void resample(
            const type *read, type *written, const tables<sum_type> &map) {
        // Blocks at work have neighbouring tiles, so memory is read and written at few places; of one
        // segment each along one axis. Where over an eighth might have none each has some in a row.
        constexpr int segments = walks ? 1 : g.tile_strips;
        constexpr int of_segment = g.grid / segments;
        const int block = static_cast<int>(blockIdx.x);
        const int blocks = static_cast<int>(gridDim.x);
        const auto first_of = [&](int of) {
            return static_cast<int>(
                    static_cast<long long>(g.grid) * of / blocks);
        };
        const bool in_turns = blocks >= 8 * segments;
        const int to_next = in_turns ? blocks / segments : 1;
        const int segment = block % segments;
        int number = in_turns ? segment * of_segment + block / segments
                              : first_of(block);
        const int end
                = in_turns ? (segment + 1) * of_segment : first_of(block + 1);
        if (in_turns && block >= to_next * segments) return;
        // In order; by one loop, whose code an unrolled one would have for each stage.
        tile on_way[c.stages];
        const auto submit = [&](int of, int slot, const auto &by) {
#pragma unroll
            for (int i = 1; i < c.stages; ++i)
                on_way[i - 1] = on_way[i];
            if (of < end) {
                tile &last = on_way[c.stages - 1];
                last.find(of, by, read, written);
                last.copy(slot, read);
            }
            commit_copies();
        };
#pragma unroll 1
        for (int slot = 0; slot < c.stages; ++slot)
            submit(number + slot * to_next, slot, map);
        const auto near = tables_of_block(map);
        // Threads keep their columns from tile to tile.
        lanes_of_thread<s, s> lanes;
        int strip = on_way[0].strip;
        lanes.find(walks ? 0 : strip * c.strip, map.column);
        int slot = 0;
#pragma unroll 1
        for (; number < end; number += to_next) {
            const tile now = on_way[0];
            wait_for_copies<c.stages - 1>();
            __syncthreads();
            if (!walks && now.strip != strip) {
                strip = now.strip;
                lanes.find(strip * c.strip, map.column);
            }
            now.compute(lanes, slot, near);
            __syncthreads();
            submit(number + c.stages * to_next, slot, near);
            if constexpr (c.gathers) now.flush(near.others);
            slot = slot + 1 == c.stages ? 0 : slot + 1;
        }
    }
};

} // namespace gradnn::gpu::resample
