// Device code of interpolation.gpu_matrices: the columns of a tile, resampled from
// its sums in shared memory, and results that are computed again.
#pragma once

#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/matrices/cut.hpp"
#include "gpu/interpolation/tables.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::matrices {

/// Taps of a source column: outputs first <= q < first + count.
struct column_range {
    int32_t first = 0;
    int32_t count = 0;
};

struct kernel_tables {
    /// Matrices of weights as lanes hold them, [matrix][term][lane].
    const uint4 *matrices = nullptr;
    const row_tile *row_tiles = nullptr;
    const dst_range *column_spans = nullptr; ///< by column tile
    const column_range *columns = nullptr;
    /// [column][weights_pitch], zeros behind the taps; times what makes up for the
    /// scale of the matrices.
    const float *column_weights = nullptr;
    gathered_axis<float> by_row, by_column; ///< for what is NaN
};

/// One element from the definition, in the order of interpolation.gpu_strided.
template <typename Type>
__device__ __noinline__ float element_again(const Type *group,
        const work_shape &shape, const kernel_tables &tables, int row,
        int column, int channel) {
    const bool equal = shape.equal_rows != 0;
    const tap_range h
            = equal ? tap_range {row, 0, 1} : tables.by_row.ranges[row];
    const tap_range w = tables.by_column.ranges[column];
    float sum = 0;
    for (int64_t q = 0; q < h.count; ++q) {
        const Type *const from = group + (h.first + q) * shape.dst_row_pitch
                + w.first * shape.channels + channel;
        float line = 0;
        for (int64_t r = 0; r < w.count; ++r)
            line = add_product(line, tables.by_column.weights[w.offset + r],
                    widen(from[r * shape.channels]));
        sum = equal
                ? line
                : add_product(sum, tables.by_row.weights[h.offset + q], line);
    }
    return sum;
}

/// What resampling the columns of a tile needs to know.
template <typename Type>
struct tile_place {
    const Type *dst; ///< of the first group
    Type *src; ///< of the first group, at the tile's first row
    int groups, first_row, rows, first_column, columns, first_channel;
    dst_range span;
    int lead; ///< slots before the first column
};

/// `count` rows of a column from `row` on, from the definition, to `to`.
template <typename Type>
__device__ __noinline__ void write_again(const Type *group, Type *to, int row,
        int count, int column, int channel, const work_shape &shape,
        const kernel_tables &tables) {
    for (const int end = row + count; row < end; ++row) {
        stream_one(
                to, element_again(group, shape, tables, row, column, channel));
        to += shape.src_row_pitch;
    }
}

/// Resamples the columns of the sums in `line`: `part` rows of an output to a
/// thread, `chunk` taps at a time.
template <typename Type, int part, int chunk>
__device__ __forceinline__ void resample_columns(const float *line,
        const tile_place<Type> &tile, const work_shape &shape,
        const kernel_tables &tables) {
    constexpr int pitch = line_pitch;
    constexpr int parts = matrix_side / part;
    const int group_outputs = tile.columns * shape.tile_channels;
    // The quotients are for whole tiles: outputs that are not there are left out.
    const int group_all = shape.tile_columns * shape.tile_channels;
    const int all = shape.tile_groups * group_all;
#pragma unroll 1
    for (int number = static_cast<int>(threadIdx.x); number < all * parts;
            number += threads) {
        int output = number;
        int first_row = 0;
        if constexpr (parts != 1) {
            const int rows_from = shape.by_outputs.of(number);
            output -= rows_from * all;
            first_row = rows_from * part;
        }
        const int group = shape.by_group_outputs.of(output);
        output -= group * group_all;
        const int end_row = min(first_row + part, tile.rows);
        if (group >= tile.groups || output >= group_outputs
                || first_row >= end_row)
            continue;
        const int j = shape.by_channels.of(output);
        const int channel = output - j * shape.tile_channels;
        const int column = tile.first_column + j;
        const column_range taps = tables.columns[column];
        const float *weights
                = tables.column_weights + column * shape.weights_pitch;
        const float *const from = line + first_row * pitch;
        int slot = group * shape.group_segments * segment + tile.lead + channel
                + (taps.first - tile.span.first) * shape.tile_channels;
        const int last = slot + (taps.count - 1) * shape.tile_channels;
        float sums[part] = {};
#pragma unroll 1
        for (int k = 0; k < taps.count; k += chunk) {
            float by[chunk];
            if constexpr (chunk % 2 == 0)
                pack<float, chunk>::load_constant(weights).unpack(by);
            else {
#pragma unroll
                for (int i = 0; i < chunk; ++i)
                    by[i] = __ldg(weights + i);
            }
            weights += chunk;
#pragma unroll
            for (int i = 0; i < chunk; ++i) {
                // Behind the taps, the last one again, with a weight of 0.
                const float *const sum = from + place_of(min(slot, last));
                slot += shape.tile_channels;
#pragma unroll
                for (int r = 0; r < part; ++r)
                    sums[r] = add_product(sums[r], by[i], sum[r * pitch]);
            }
        }
        Type *to = tile.src + group * shape.src_group_pitch
                + first_row * shape.src_row_pitch
                + int64_t {column} * shape.channels + tile.first_channel
                + channel;
        float any = 0; // NaN if any is
#pragma unroll
        for (int r = 0; r < part; ++r)
            any += sums[r];
        if (isnan(any)) {
            write_again(tile.dst + group * shape.dst_group_pitch, to,
                    tile.first_row + first_row, end_row - first_row, column,
                    tile.first_channel + channel, shape, tables);
            continue;
        }
#pragma unroll
        for (int r = 0; r < part; ++r) {
            if (first_row + r < end_row) stream_one(to, sums[r]);
            to += shape.src_row_pitch;
        }
    }
}

template <typename Type, int part>
__device__ __forceinline__ void resample_columns(const float *line,
        const tile_place<Type> &tile, const work_shape &shape,
        const kernel_tables &tables) {
    if (shape.most_taps <= 1)
        resample_columns<Type, part, 1>(line, tile, shape, tables);
    else if (shape.most_taps == 2)
        resample_columns<Type, part, 2>(line, tile, shape, tables);
    else if (shape.most_taps == 3)
        resample_columns<Type, part, 3>(line, tile, shape, tables);
    else
        resample_columns<Type, part, 4>(line, tile, shape, tables);
}

} // namespace gradnn::gpu::interpolation::matrices
