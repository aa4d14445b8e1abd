// The sums of the columns kernel: over the planes that feed a depth, and over the
// window of the line that feeds an output.
#pragma once

#include "gpu/interpolation/columns/kind.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::columns {

/// Adds the same row of neighbouring planes, in slots from `slot` on, to its sum
/// for each depth. loaded(slot, word, plane) is a word.
template <int batch, int planes, int depths, int words, int vector,
        typename Sum, typename Loaded>
__device__ __forceinline__ void add_planes(
        Sum (&row_sums)[depths][words][vector],
        const Sum (&plane_weights)[planes][depths], int slot,
        const Loaded &loaded) {
    static_assert(planes % batch == 0);
#pragma unroll
    for (int first = 0; first < planes; first += batch) {
        bool any = false;
#pragma unroll
        for (int k = first; k < first + batch; ++k)
            any = any || any_weight(plane_weights[k]);
        if (!any) continue;
        // A plane without weight may be read: nothing is done with it.
        Sum values[batch][words][vector];
#pragma unroll
        for (int k = 0; k < batch; ++k)
#pragma unroll
            for (int i = 0; i < words; ++i)
                loaded(slot + first + k, i, first + k).unpack(values[k][i]);
#pragma unroll
        for (int k = 0; k < batch; ++k)
#pragma unroll
            for (int d = 0; d < depths; ++d) {
                const Sum weight = plane_weights[first + k][d];
                if (weight == 0) continue;
#pragma unroll
                for (int i = 0; i < words; ++i)
                    add_products(row_sums[d][i], row_sums[d][i], weight,
                            values[k][i]);
            }
    }
}

/// Outputs o to o + group, with weights in registers: all reads of the line, then
/// all sums, so that the warp waits for shared memory once. has(o, k) says whether
/// an output has a tap.
template <typename Kind, int held, typename Sum, typename Has>
__device__ __forceinline__ void sum_held(Sum (&totals)[Kind::group],
        const Sum *line, const int (&window_at)[Kind::outputs],
        const Sum (&by)[Kind::outputs][held], int o, const Has &has) {
    constexpr int outputs = Kind::outputs;
    constexpr int taps = Kind::taps;
    Sum values[Kind::group][held];
#pragma unroll
    for (int g = 0; g < Kind::group; ++g) {
        if (o + g >= outputs) continue;
        const Sum *window = line + window_at[o + g];
        if constexpr (Kind::quads > 0) {
#pragma unroll
            for (int q = 0; q < Kind::quads; ++q) {
                const four_sums<Sum> some
                        = reinterpret_cast<const four_sums<Sum> *>(window)[q];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    values[g][q * 4 + k] = some.values[k];
            }
        } else {
#pragma unroll
            for (int k = 0; k < taps; ++k)
                values[g][k] = window[k];
        }
    }
#pragma unroll
    for (int g = 0; g < Kind::group; ++g)
        totals[g] = 0;
#pragma unroll
    for (int k = 0; k < taps; ++k)
#pragma unroll
        for (int g = 0; g < Kind::group; ++g)
            if (o + g < outputs && has(o + g, k))
                totals[g] = add_product(totals[g], by[o + g][k], values[g][k]);
}

/// The same with weights from memory, four of an output at a time.
template <typename Kind, typename Sum>
__device__ __forceinline__ void sum_far(Sum (&totals)[Kind::group],
        const Sum *line, const int (&window_at)[Kind::outputs],
        const four_sums<Sum> *far, int quads, int o) {
    using quad = four_sums<Sum>;
#pragma unroll
    for (int g = 0; g < Kind::group; ++g)
        totals[g] = 0;
#pragma unroll 2
    for (int q = 0; q < quads; ++q) {
        quad weight[Kind::group];
        quad some[Kind::group];
#pragma unroll
        for (int g = 0; g < Kind::group; ++g) {
            weight[g] = far[((o + g) * quads + q) * 32];
            some[g] = reinterpret_cast<const quad *>(
                    line + window_at[o + g])[q];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int g = 0; g < Kind::group; ++g)
                if (weight[g].values[k] != 0)
                    totals[g] = add_product(
                            totals[g], weight[g].values[k], some[g].values[k]);
    }
}

} // namespace gradnn::gpu::interpolation::columns
