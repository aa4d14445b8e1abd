// InterpolateBackward of 16-bit types on tensor cores: NCX and NXC, any ratio.
//
// The sums over the rows of diff_dst are a product with a banded matrix:
//
//     line[i, x] = sum over p of wh[i, p] * diff_dst[p, x]
//
// for 16 source rows i, with x an element of a row, whatever its column or
// channel. Weights are the sum of one to three 16-bit matrices (`terms`), exact or
// within 2^-22; products are exact and sums in f32. Then the columns:
//
//     diff_src[i, j] = sum over q of ww[j, q] * line[i, q].
//
// A block has a tile: 16 source rows at most, and so many columns, channels and
// groups (planes side by side) that its elements fill 8 segments of 8 elements
// for each strip of its warps. mma.m16n8k16 takes 16 rows and 8 columns, and which
// 8 is free: of a strip it takes element e of each segment, e = 0 .. 7. So lane
// (g, t) = (lane / 4, lane % 4) loads, straight from memory, segment g of rows 2t,
// 2t + 1, 2t + 8 and 2t + 9, and has then all that it must bring to eight products:
//
//     diff_dst     segment 0 | segment 1 | ...  | segment 7
//     rows 2t ..     g = 0       g = 1              g = 7     16 bytes a lane
//     product e      element e of each segment: 16 rows x 8 columns
//     sums           rows g and g + 8, segments 2t and 2t + 1, in registers
//
// When the rows of a tile are added, the sums go to shared memory, and each thread
// resamples some columns, in all 16 rows or, where there are few columns, in 4. The
// first rows of the block's next tile are on their way meanwhile.
//
// A value that is not finite times a weight of 0 is NaN, which the sums of a tile
// then have too. A result that is NaN is computed again from the definition.
//
// Deterministic: every sum is of one thread, or of one product, in an order that
// the tiles decide, and these follow from the shape and the device.
#pragma once

#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/matrices/resample.cuh"
#include "gpu/interpolation/matrices/rows.cuh"

namespace gradnn::gpu::interpolation::matrices {

template <typename Type, int vector, int terms>
__global__ void __launch_bounds__(threads, 3)
        interpolation_matrices_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ work_shape shape,
                const __grid_constant__ kernel_tables tables) {
    __shared__ float line[matrix_side * line_pitch];

    const auto lane = static_cast<int>(threadIdx.x % 32);
    const auto warp = static_cast<int>(threadIdx.x / 32);
    const int g = lane / 4;
    const int t = lane % 4;

    unsigned block = blockIdx.x;
    const auto next_part = [&](int parts) {
        const unsigned part = block % static_cast<unsigned>(parts);
        block /= static_cast<unsigned>(parts);
        return static_cast<int>(part);
    };
    const int channel_tile = next_part(shape.channel_tiles);
    const int column_tile = next_part(shape.column_tiles);
    const int run = next_part(shape.runs);
    const int64_t first_group = int64_t {block} * shape.tile_groups;

    tile_place<Type> tile;
    tile.groups = static_cast<int>(
            min(int64_t {shape.tile_groups}, shape.groups - first_group));
    tile.first_column = column_tile * shape.tile_columns;
    tile.columns
            = min(shape.tile_columns, shape.src_columns - tile.first_column);
    // The last tile of channels overlaps that before it; both write the same.
    tile.first_channel = min(channel_tile * shape.tile_channels,
            shape.channels - shape.tile_channels);
    tile.span = tables.column_spans[column_tile];
    tile.dst = diff_dst + first_group * shape.dst_group_pitch;
    Type *const src = diff_src + first_group * shape.src_group_pitch;
    const bool whole_pixels = shape.tile_channels == shape.channels;
    const int from_element = tile.span.first * shape.channels;
    tile.lead = whole_pixels ? from_element % segment : 0;

    // The segments of this lane, and the slots of those whose sums it gets.
    const auto segment_of = [&](int number, int &group) {
        group = shape.by_group_segments.of(number);
        const int in_group = number - group * shape.group_segments;
        group = min(group, tile.groups - 1);
        if (whole_pixels)
            return min(from_element - tile.lead + in_group * segment,
                    shape.dst_columns * shape.channels - segment);
        const int column = shape.by_pixel_segments.of(in_group);
        const int channel = (in_group * segment - column * shape.tile_channels);
        return min(tile.span.first + column, shape.dst_columns - 1)
                * shape.channels
                + tile.first_channel + channel;
    };
    const Type *from[strips];
#pragma unroll
    for (int s = 0; s < strips; ++s) {
        int group = 0;
        const int element
                = segment_of((warp * strips + s) * strip_segments + g, group);
        from[s] = tile.dst + group * shape.dst_group_pitch + element;
    }

    // Rows behind a tile's are the last one again, or, to keep whether they begin in
    // the middle of a word, its neighbour. Their weights are 0.
    const auto row_pitch = static_cast<uint32_t>(shape.dst_row_pitch);
    const int odd_pitch = static_cast<int>(row_pitch & 1);
    loaded_rows<vector> loaded[strips];
    const auto load = [&](int s, const dst_range &span, int matrix) {
        const int first = span.first + matrix * matrix_side + 2 * t;
        const int last_row = span.end - 1;
        if constexpr (vector == 1) {
            const auto half = static_cast<int>(
                                      reinterpret_cast<uintptr_t>(from[s]) >> 1)
                    ^ (span.first & odd_pitch);
            loaded[s].odd = static_cast<uint32_t>(
                    (half & 1) | ((half ^ odd_pitch) & 1) << 1);
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            int row = first + r % 2 + r / 2 * 8;
            if constexpr (vector == 1) {
                if (row > last_row) {
                    const bool other
                            = odd_pitch != 0 && ((row ^ last_row) & 1) != 0;
                    row = !other ? last_row : last_row > 0 ? last_row - 1 : 1;
                }
            } else {
                row = min(row, last_row);
            }
            loaded[s].load(r,
                    from[s]
                            + uint64_t {static_cast<uint32_t>(row)}
                                    * row_pitch);
        }
    };

    float sums[strips][segment][4];
    // The sums of a tile; loads the first rows of the next one, if there is one.
    const auto add_rows = [&](const row_tile &rows, const dst_range &next) {
        const uint4 *weights
                = tables.matrices + int64_t {rows.matrix} * (terms * 32) + lane;
#pragma unroll
        for (int s = 0; s < strips; ++s)
#pragma unroll
            for (int e = 0; e < segment; ++e)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums[s][e][i] = 0;
#pragma unroll 1
        for (int matrix = 0; matrix < rows.matrices; ++matrix) {
            uint4 by[terms];
#pragma unroll
            for (int term = 0; term < terms; ++term)
                by[term] = __ldg(weights + term * 32);
            weights += terms * 32;
            const bool ends = matrix + 1 == rows.matrices;
#pragma unroll
            for (int s = 0; s < strips; ++s) {
                uint32_t b0[segment], b1[segment];
                loaded[s].unpack(b0, b1);
                if (!ends)
                    load(s, rows.span, matrix + 1);
                else if (next.end != 0)
                    load(s, next, 0);
#pragma unroll
                for (int term = 0; term < terms; ++term)
#pragma unroll
                    for (int e = 0; e < segment; ++e)
                        multiply<Type>(sums[s][e], by[term], b0[e], b1[e]);
            }
        }
    };
    const auto write_line = [&] {
#pragma unroll
        for (int s = 0; s < strips; ++s)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int number
                        = (warp * strips + s) * strip_segments + 2 * t + half;
                int slot = number * segment;
                if (vector != 8 && whole_pixels) {
                    // The last segment of a row may begin earlier.
                    int group = 0;
                    const int element = segment_of(number, group);
                    const int in_group = number
                            - shape.by_group_segments.of(number)
                                    * shape.group_segments;
                    slot += element - (from_element - tile.lead)
                            - in_group * segment;
                }
#pragma unroll
                for (int e = 0; e < segment; ++e) {
                    float *const to
                            = line + g * line_pitch + place_of(slot + e);
                    to[0] = sums[s][e][half];
                    to[8 * line_pitch] = sums[s][e][2 + half];
                }
            }
    };

    int at = run * shape.run_tiles;
    const int end = min(at + shape.run_tiles, shape.row_tiles);
    row_tile rows = tables.row_tiles[at];
    wait_for_earlier_work();
    if (shape.lets_start != 0) let_later_work_start();
    const auto load_first = [&](const row_tile &of) {
        if (of.matrices == 0) return;
#pragma unroll
        for (int s = 0; s < strips; ++s)
            load(s, of.span, 0);
    };
    load_first(rows);
#pragma unroll 1
    for (bool first = true;; first = false) {
        row_tile next;
        if (at + 1 < end) next = tables.row_tiles[at + 1];
        add_rows(rows, next.span);
        if (rows.matrices == 0) load_first(next);
        if (!first) __syncthreads(); // the line was read
        write_line();
        __syncthreads();
        tile.first_row = rows.first_row;
        tile.rows = rows.rows;
        tile.src = src + int64_t {rows.first_row} * shape.src_row_pitch;
        if (shape.row_parts == 1)
            resample_columns<Type, matrix_side>(line, tile, shape, tables);
        else
            resample_columns<Type, matrix_side / few_outputs_parts>(
                    line, tile, shape, tables);
        if (++at >= end) break;
        rows = next;
    }
}

} // namespace gradnn::gpu::interpolation::matrices
