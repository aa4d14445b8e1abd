// Results of data that are NaN, again from the definition (data.cuh).
#pragma once

#include "gpu/convolution/sliding/data_walk.cuh"

namespace gradnn::gpu::sliding {

/// A row of a tile again, over nothing but the terms of the formula.
template <const kernel_specification &s>
__device__ __noinline__ void data_walk<s>::write_again(const type *read,
        const type *weights, type *at, int image, int first_channel,
        int first_depth, int row, int first_column, fused_places others) {
#pragma unroll 1
    for (int e = 0; e < cut.depths * cut.columns * cut.vector; ++e) {
        const int channel = first_channel + e % cut.vector;
        const int j = e / cut.vector % cut.columns;
        const int o = e / (cut.vector * cut.columns);
        const int column = first_column + j * g.column_step;
        const int depth = first_depth + o;
        if (column >= p.column.written || depth >= p.depth.written) continue;
        sum_type total = 0;
#pragma unroll 1
        for (int t = 0; t < p.depth.taps * p.row.taps * p.column.taps; ++t) {
            // In the order of the walk, whose rows of read ascend.
            const int kh = p.row.taps - 1 - t / (p.depth.taps * p.column.taps);
            const int kd = t / p.column.taps % p.depth.taps;
            const int kw = t % p.column.taps;
            int z = depth * p.depth.step + p.depth.base - kd * p.depth.dilation;
            int y = row * p.row.step + p.row.base - kh * p.row.dilation;
            int x = column * p.column.step + p.column.base
                    - kw * p.column.dilation;
            if (z < 0 || y < 0 || x < 0 || z % p.depth.up || y % p.row.up
                    || x % p.column.up)
                continue;
            z /= p.depth.up;
            y /= p.row.up;
            x /= p.column.up;
            if (z >= p.depth.read || y >= p.row.read || x >= p.column.read)
                continue;
#pragma unroll 1
            for (int m = 0; m < p.multiplier; ++m)
                total = multiply_add(widen<p.type>(read[image * p.read.image
                                             + (static_cast<long long>(channel)
                                                               * p.multiplier
                                                       + m)
                                                     * p.read.channel
                                             + z * p.read.depth + y * p.read.row
                                             + x * p.read.column]),
                        weight_of(weights, channel, m, kd, kh, kw), total);
        }
        type *const to = at + o * g.to.depth + j * g.column_step * g.to.column
                + e % cut.vector;
        auto made = elements<p.type, 1>::of({total});
        // Those in shared memory meet the ops behind the problem when they leave it.
        if constexpr (!staged) made = with_epilogue(p, made, to, others);
        made.store(to);
    }
}

} // namespace gradnn::gpu::sliding
