// Blocks walk through tiles of shared memory, of which some are on their way by bulk copies.
#pragma once

#include "gpu/interpolation/resample/tile.cuh"
#include "gpu/interpolation/resample/walk.cuh"

namespace gradnn::gpu::resample {

/// What a thread has of a tile in a stage.
template <const specification_of_kernel &s>
__device__ __forceinline__ void compute(lanes_of_thread<s, s> &lanes,
        const tile_of_block<s> &at, int slot,
        const tables<sum<s.of.type>> &map) {
    using tile = tile_of_block<s>;
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_for<s>;
    const auto *here
            = tile::stage(slot) + tile::place_in_16_bytes(at.begin_of_copy());
    auto *const to = at.destination();
    if constexpr (!tile::walks) here -= at.from * p.column.read_pitch;
    const int planes = least(c.planes, g.outers - at.outer);
    // Rows of a period are unrolled already.
    constexpr int together = walk<s>::repeats.rows > 0 ? 1 : 2;
    lanes.template each_item<together>([&](walk<s> &of, int inner, int number) {
        // Of different planes items are neighbours: threads side by side do the same. Where
        // they write to memory those of a plane are, which leaves fewer places that are
        // written in part.
        constexpr int of_plane = g.lane_items / c.planes;
        const int plane = c.gathers ? number % c.planes : number / of_plane;
        int rest = c.gathers ? number / c.planes : number % of_plane;
        if (plane >= planes) return;
        typename walk<s>::item item {0, 0, 0};
        if constexpr (tile::walks) {
            item.middle = rest % p.middle.written;
            rest /= p.middle.written;
            item.begin = at.strip * g.tile_written + rest * c.strip;
            item.end = least(item.begin + c.strip, p.walk.written);
            if (item.begin >= p.walk.written) return;
        }
        of.run(item, map, here + plane * p.outer_read[0] + inner, at.from,
                to + plane * p.outer_write[0] + inner);
    });
}

/// The maps of walk and middle in shared memory, by all threads; a __syncthreads is to follow.
template <const specification_of_kernel &s>
__device__ __forceinline__ tables<sum<s.of.type>> tables_of_block(
        const tables<sum<s.of.type>> &map) {
    static constexpr problem_specification p = s.of;
    tables<sum<p.type>> near = map;
    char *to = jit::dynamic_shared() + barrier_bytes;
    const auto keep = [&]<typename Value>(const Value *&values, int count) {
        Value *const kept = reinterpret_cast<Value *>(to);
        for (int i = static_cast<int>(threadIdx.x); i < count;
                i += s.cut_by.threads)
            kept[i] = values[i];
        values = kept;
        to += (count * sizeof(Value) + table_alignment - 1) / table_alignment
                * table_alignment;
    };
    if constexpr (geometry_for<s>.table_bytes > 0 && p.walk.is_there()) {
        keep(near.steps, p.walk.read);
        keep(near.walk.places, p.walk.written);
    }
    if constexpr (geometry_for<s>.table_bytes > 0 && p.middle.is_there()) {
        keep(near.middle.places, p.middle.written);
        keep(near.middle.weights, p.middle.written * p.middle.most_taps);
    }
    return near;
}

template <const specification_of_kernel &s>
__device__ void resample_of_tiles(const storage<s.of.type> *read,
        storage<s.of.type> *written, const tables<sum<s.of.type>> &map) {
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_for<s>;
    using tile = tile_of_block<s>;
    // Every block has neighbouring tiles.
    const auto first_of = [](unsigned block) {
        return static_cast<int>(
                static_cast<long long>(g.all_tiles) * block / gridDim.x);
    };
    int number = first_of(blockIdx.x);
    const int end = first_of(blockIdx.x + 1);
    if constexpr (s.of.bulk_copies) {
        if (threadIdx.x == 0)
            for (int slot = 0; slot < c.stages; ++slot)
                jit::begin_barrier(tile::barrier(slot));
        __syncthreads();
    }
    // In order; by one loop, whose code an unrolled one would have for each stage.
    tile on_way[c.stages];
    const auto submit = [&](int of, int slot, const auto &by) {
#pragma unroll
        for (int i = 1; i < c.stages; ++i)
            on_way[i - 1] = on_way[i];
        if (of >= end) return;
        tile &last = on_way[c.stages - 1];
        last.find(of, by, read, written);
        last.copy(slot, read);
    };
#pragma unroll 1
    for (int slot = 0; slot < c.stages; ++slot)
        submit(number + slot, slot, map);
    const auto near = tables_of_block<s>(map);
    // Threads keep their columns from tile to tile.
    lanes_of_thread<s, s> lanes;
    int strip = on_way[0].strip;
    lanes.find(tile::walks ? 0 : strip * c.strip, map.column);
    __syncthreads();
    int slot = 0, parity = 0;
#pragma unroll 1
    for (; number < end; ++number) {
        const tile now = on_way[0];
        if (now.by_threads) __syncthreads();
        if constexpr (s.of.bulk_copies)
            jit::wait_for_copies(tile::barrier(slot), parity);
        if (!tile::walks && now.strip != strip) {
            strip = now.strip;
            lanes.find(strip * c.strip, map.column);
        }
        compute<s>(lanes, now, slot, near);
        __syncthreads();
        submit(number + c.stages, slot, near);
        if constexpr (c.gathers) {
            now.flush(near.others);
            __syncthreads();
        }
        if (++slot == c.stages) {
            slot = 0;
            parity ^= 1;
        }
    }
}

} // namespace gradnn::gpu::resample
