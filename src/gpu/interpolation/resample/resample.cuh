// The kernels, by the form that their specification says: threads read global memory, or
// tiles of shared memory, or share rows of sums in it.
#pragma once

#include "gpu/interpolation/resample/lines.cuh"
#include "gpu/interpolation/resample/tiles.cuh"
#include "gpu/interpolation/resample/walk.cuh"

namespace gradnn::gpu::resample {

template <const specification_of_kernel &s>
__device__ void resample_of_threads(const storage<s.of.type> *read,
        storage<s.of.type> *written, const tables<sum<s.of.type>> &map) {
    static constexpr problem_specification p = s.of;
    static constexpr cut c = s.cut_by;
    static constexpr geometry g = geometry_for<s>;
    const unsigned number = blockIdx.x * c.threads + threadIdx.x;
    if (number >= g.items) return;
    unsigned rest = number;
    int vector = 0, tile = 0;
    const int lane = static_cast<int>(rest % 32);
    if constexpr (c.exchanged) {
        rest /= 32;
    } else {
        vector = rest % g.vectors;
        rest /= g.vectors;
        tile = rest % g.tiles;
        rest /= g.tiles;
    }
    typename walk<s>::item at;
    at.middle = rest % p.middle.written;
    rest /= p.middle.written;
    at.begin = rest % g.strips * c.strip;
    at.end = least(at.begin + c.strip, p.walk.written);
    rest /= g.strips;
    bool writes = true;
    if constexpr (c.exchanged) {
        // Of all rows' tiles, one after the other; all lanes take part in exchanges. No clamp:
        // ptxas 13.0 loses a comparison of its result with the upper bound (VIMNMX.RELU).
        const unsigned number = rest * g.writers + lane - g.lead;
        const bool exists = number < static_cast<unsigned>(g.outers * g.tiles);
        writes = exists && lane >= g.lead && lane < g.lead + g.writers;
        rest = exists ? number : 0;
        tile = rest % g.tiles;
        rest /= g.tiles;
    }
    walk<s> of;
    of.along.find(tile, map.column);
    if (!writes) of.along.first_column = p.column.written;
    move_to_outer<p>(rest, read, written);
    of.run(at, map, read + vector * c.vector, 0, written + vector * c.vector);
}

template <const specification_of_kernel &s>
__device__ void resample(const storage<s.of.type> *read,
        storage<s.of.type> *written, const tables<sum<s.of.type>> &map) {
    wait_and_let_later_work_start();
    if constexpr (s.of.walk_first)
        resample_by_lines<s>(read, written, map);
    else if constexpr (s.cut_by.stages > 0)
        resample_of_tiles<s>(read, written, map);
    else
        resample_of_threads<s>(read, written, map);
}

} // namespace gradnn::gpu::resample
