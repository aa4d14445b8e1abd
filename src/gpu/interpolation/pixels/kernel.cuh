// InterpolateBackward, NXC, few taps a column: a thread a column and channels.
//
// diff_src[i,j,c] = sum over q of wh[q] * sum over k of ww[k] *
// diff_dst[q, first(j) + k, c].
//
// A thread owns a source column and a vector of up to 16 bytes of its channels
// (neighbouring threads: neighbouring channels, then columns); a block walks down
// the rows (interpolation/walk.cuh). Of each row of diff_dst it copies the
// columns that its source columns need, each once, to shared memory, some rows
// ahead; a thread sums the taps of its column, at most 8, adds that to the two
// source rows that it has in registers, and writes each source row once, 16
// bytes at a time. Single elements of 16 bits, which are too small to be copied,
// a thread loads to registers instead.
//
// Every sum runs over ascending rows, each a sum over ascending columns (over
// ascending depths in between where the depth is resampled), in one thread: the
// same bits on every run. A tap of weight 0 is never taken.
#pragma once

#include <cstdint>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/spans.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::pixels {

constexpr int most_threads = 256;
/// A block of vectors of 16 bytes, or of single elements.
constexpr int threads_of(int64_t vector_bytes) {
    return vector_bytes == 16 ? 128 : most_threads;
}

struct work_cut {
    int64_t dst_column_pitch = 0;
    int64_t src_column_pitch = 0;
    int64_t tiles = 0;
    int32_t columns = 0;
    /// A tile is so many columns by so many neighbouring vectors of channels.
    int32_t tile_columns = 0;
    int32_t tile_units = 0;
    int32_t units = 0; ///< vectors of a pixel, maybe fewer in the last tile
    int32_t column_tiles = 0;
    int32_t span = 0; ///< columns of diff_dst that a tile reads at most
};

/// Whether a block copies its rows to shared memory.
template <typename Type, int vector>
constexpr bool copies_rows = sizeof(Type) * vector >= 4;

/// Planes of diff_dst that go into one addition.
template <typename Type, int vector, bool volume>
constexpr int planes_at_once = volume &&copies_rows<Type, vector> ? 3 : 1;
/// Planes of diff_src that a run has at once, where the depth is resampled.
constexpr int depths_at_once = 2;
/// Slots for additions of which all but one are on their way.
template <typename Type, int vector, int taps, bool volume>
constexpr int slots_ahead = !copies_rows<Type, vector> ? 16 / taps
        : volume || taps > 4                           ? 3
                                                       : 4;

template <typename Type, int vector, int taps, bool volume>
__global__ void __launch_bounds__(
        threads_of(sizeof(Type) * vector)) pixels_kernel(const Type *diff_dst,
        Type *diff_src, const __grid_constant__ walk_shape shape,
        const __grid_constant__ walk_tables<sum_of<Type>> tables,
        const __grid_constant__ work_cut pixels, const line_column *columns,
        const dst_range *spans, const sum_of<Type> *weights) {
    using sum = sum_of<Type>;
    using words = pack<Type, vector>;
    constexpr bool copies = copies_rows<Type, vector>;
    constexpr int ahead = slots_ahead<Type, vector, taps, volume>;
    constexpr int planes = planes_at_once<Type, vector, volume>;
    constexpr int depths = volume ? depths_at_once : 1;

    const int64_t run = blockIdx.x / pixels.tiles;
    const auto tile = static_cast<int>(blockIdx.x - run * pixels.tiles);
    const int channel_tile = tile / pixels.column_tiles;
    const int column_tile = tile - channel_tile * pixels.column_tiles;
    const int own = static_cast<int>(threadIdx.x) / pixels.tile_units;
    const int unit = static_cast<int>(threadIdx.x) - own * pixels.tile_units;
    const int tile_first = column_tile * pixels.tile_columns;
    const int tile_last
            = min(tile_first + pixels.tile_columns, pixels.columns) - 1;
    const int of_pixel = channel_tile * pixels.tile_units + unit;
    const bool writes
            = tile_first + own <= tile_last && of_pixel < pixels.units;
    if (!copies && !writes) return;
    // Threads without a column or a vector do as the last one does, and write
    // nothing.
    const int j = min(tile_first + own, tile_last);
    const int64_t channel = int64_t {min(of_pixel, pixels.units - 1)} * vector;

    const line_column column = columns[j];
    sum by[taps];
#pragma unroll
    for (int k = 0; k < taps; ++k)
        by[k] = k < column.count ? weights[column.offset + k] : sum(0);

    // Slots of rows, either for the block or for the thread.
    extern __shared__ uint4 rows_of_block[];
    words *const rows = reinterpret_cast<words *>(rows_of_block);
    const int slot_size = pixels.span * pixels.tile_units;
    words slots[copies ? 1 : ahead][taps];
    int first = column.first; // of the columns that the block reads
    int copied = 0;
    int place = 0;
    if constexpr (copies) {
        const dst_range span = spans[column_tile];
        first = span.first + own;
        if (own < pixels.tile_columns)
            copied = (span.end - first + pixels.tile_columns - 1)
                    / pixels.tile_columns;
        if (column.count > 0)
            place = (column.first - span.first) * pixels.tile_units;
        place += unit;
    }
    const int copy_distance = pixels.tile_columns * pixels.tile_units;
    const int64_t copy_pitch = pixels.tile_columns * pixels.dst_column_pitch;
    const auto copy_if = [](bool wanted, words *to, const Type *from) {
        // Measured: with two taps, L1 is of use.
        if constexpr (sizeof(words) == 16 && taps > 2)
            copy_async_past_l1_if(wanted, to, from);
        else if constexpr (copies)
            copy_async_if<sizeof(words)>(wanted, to, from);
    };
    const auto load = [&](int slot, const Type *from, bool wanted) {
        if constexpr (copies) {
            words *to = rows + slot * slot_size + threadIdx.x;
            // As many as the linear family has for so many taps.
            constexpr int usual = taps / 2 + 1;
#pragma unroll
            for (int k = 0; k < usual; ++k) {
                copy_if(wanted && k < copied, to, from);
                to += copy_distance;
                from += copy_pitch;
            }
#pragma unroll 1
            for (int k = usual; k < copied; ++k) {
                copy_if(wanted, to, from);
                to += copy_distance;
                from += copy_pitch;
            }
        } else {
#pragma unroll
            for (int k = 0; k < taps; ++k) {
                slots[slot][k] = words {};
                if (k < column.count)
                    slots[slot][k]
                            = words::load(from + k * pixels.dst_column_pitch);
            }
        }
    };
    const auto tap_of = [&](int slot, int k) {
        if constexpr (copies) {
            words tap {};
            if (k < column.count)
                tap = rows[slot * slot_size + place + k * pixels.tile_units];
            return tap;
        } else {
            return slots[slot][k];
        }
    };
    sum low[depths][vector] = {};
    sum high[depths][vector] = {};
    const auto sum_taps = [&](int slot, sum(&row)[vector]) {
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            sum values[vector];
            tap_of(slot, k).unpack(values);
#pragma unroll
            for (int e = 0; e < vector; ++e)
                row[e] = k == 0 ? by[0] * values[e]
                                : add_product(row[e], by[k], values[e]);
        }
    };
    // Of a volume: a row, summed over the planes that feed a depth.
    sum rows_of_depths[depths][volume ? vector : 1] = {};
    const auto gather = [&](int slot, const sum(&plane_weights)[planes][depths],
                                bool anew) {
        if constexpr (volume) {
            if (anew)
#pragma unroll
                for (int d = 0; d < depths; ++d)
                    clear_sums(rows_of_depths[d]);
#pragma unroll
            for (int p = 0; p < planes; ++p) {
                if (!any_weight(plane_weights[p])) continue;
                sum row[vector];
                sum_taps(slot + p, row);
#pragma unroll
                for (int d = 0; d < depths; ++d) {
                    const sum weight = plane_weights[p][d];
                    if (weight == 0) continue;
                    add_products(
                            rows_of_depths[d], rows_of_depths[d], weight, row);
                }
            }
        }
    };
    const auto take_row = [&](int slot, int d, sum(&row)[vector]) {
        if constexpr (volume) {
            copy_sums(row, rows_of_depths[d]);
        } else {
            sum_taps(slot, row);
        }
    };
    const auto add = [&](int slot, sum low_weight, sum high_weight) {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum row[vector];
            take_row(slot, d, row);
            add_products(low[d], low[d], low_weight, row);
            if (high_weight != 0)
                add_products(high[d], high[d], high_weight, row);
        }
    };
    const auto shift = [&] {
#pragma unroll
        for (int d = 0; d < depths; ++d)
            shift_sums(low[d], high[d]);
    };
    const auto shift_add = [&](int slot, sum low_weight, sum high_weight) {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum row[vector];
            take_row(slot, d, row);
            add_products(low[d], high[d], low_weight, row);
            begin_sums(high[d], high_weight, row);
        }
    };
    const auto emit = [&](Type *to, int d) {
        if (writes) words::of(low[d]).stream(to);
    };
    walk_rows<volume, ahead, planes, depths, copies>(shape, tables, run,
            diff_dst + first * pixels.dst_column_pitch + channel,
            diff_src + j * pixels.src_column_pitch + channel, load, gather, add,
            emit, shift, shift_add);
}

} // namespace gradnn::gpu::interpolation::pixels
