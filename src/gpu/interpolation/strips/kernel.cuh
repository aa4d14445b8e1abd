// InterpolateBackward, NXC, columns enlarged 2 or 4 times, any number of
// channels: a thread a strip of source columns and some of their channels.
//
// diff_src[i,j,c] = sum over q of wh[q] * sum over k of ww[j,k] *
// diff_dst[q, ratio*j - margin + k, c],   0 <= k < 2*ratio, margin = ratio/2:
// the taps of every source column lie at the same place relative to it, and
// those of weight 0 beyond the row (linear, half_pixel).
//
// A block walks down the rows (interpolation/walk.cuh) and copies the pixels
// that its source columns want, which are one range of memory, to shared memory
// some rows ahead: in pieces of 16 bytes at multiples of 16, so that any number
// of channels and any alignment go. A thread reads the pixels of its strip, each
// once, sums the taps of all its columns in registers, and adds that to the two
// source rows that it has there. It writes a source row once.
//
// Threads of a strip have its channels one after the other, `items` times, so
// that neighbouring threads read and write neighbouring elements. The last item
// of the last threads may be the last channel again. Of very few channels
// (`chunk`) a thread has all: then its strip is one range of whole pieces, read
// and written in vectors.
//
// Every sum runs over ascending columns, then over ascending rows, in one
// thread: the same bits on every run, whatever the tiles and the alignment.
#pragma once

#include <cstdint>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/strips/kind.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::strips {

/// An element of shared memory. Addresses of 32 bits that are the sum of a
/// thread's and a uniform number cost no instruction.
template <typename Type>
__device__ __forceinline__ sum_of<Type> load_shared(uint32_t address) {
    pack<Type, 1> one {};
    if constexpr (sizeof(Type) == 2)
        asm volatile("ld.shared.u16 %0, [%1];"
                     : "=h"(one.bits)
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(one.bits)
                     : "r"(address)
                     : "memory");
    sum_of<Type> value[1];
    one.unpack(value);
    return value[0];
}

/// The first source column of a tile.
template <typename Kind>
__device__ inline int first_column_of(const work_cut &cut, int tile) {
    const int width = cut.tile_strips * Kind::columns;
    const int last = cut.src_columns - width;
    const int at = tile * width;
    return at < last ? at : last > 0 ? last : 0;
}

template <typename Type, typename Kind>
__global__ void __launch_bounds__(most_threads, Kind::resident) strips_kernel(
        const Type *diff_dst, Type *diff_src,
        const __grid_constant__ walk_shape shape,
        const __grid_constant__ walk_tables<sum_of<Type>> tables,
        const __grid_constant__ work_cut cut,
        const __grid_constant__ tap_weights<sum_of<Type>, Kind::ratio> weights,
        const byte_range readable) {
    using sum = sum_of<Type>;
    constexpr int columns = Kind::columns;
    constexpr int items = Kind::items;
    constexpr int ratio = Kind::ratio;
    constexpr int margin = Kind::margin;
    constexpr int taps = Kind::taps;
    constexpr int window = Kind::window;
    constexpr int slots_ahead = Kind::slots;
    constexpr bool chunk = Kind::chunk > 0;
    constexpr int element = sizeof(Type);

    const auto thread = static_cast<int>(threadIdx.x);
    const auto tiles = static_cast<unsigned>(cut.tiles);
    const unsigned run = blockIdx.x / tiles;
    const auto tile = static_cast<int>(blockIdx.x - run * tiles);
    const int channels = chunk ? items : cut.channels;
    const int units = chunk ? 1 : cut.units;
    const int tile_column = first_column_of<Kind>(cut, tile);
    const int tile_end
            = min(tile_column + cut.tile_strips * columns, cut.src_columns);

    // Threads beyond the strips do as the last one does, and write the same.
    const int strip = min(thread / units, cut.tile_strips - 1);
    const int unit = min(thread - strip * units, units - 1);
    const int column
            = min(tile_column + strip * columns, cut.src_columns - columns);
    const bool left = column == 0;
    const bool right = column + columns == cut.src_columns;
    // Channels of an item: unit + item * units, and of the last one:
    const int last_item = min(unit + (items - 1) * units, channels - 1) - unit;

    sum by_first[taps];
    sum by_last[taps];
#pragma unroll
    for (int k = 0; k < taps; ++k) {
        by_first[k] = left ? weights.first[k] : weights.inner[k];
        by_last[k] = right ? weights.last[k] : weights.inner[k];
        if constexpr (ratio > 2) { // else they are selected for every item
            asm volatile("mov.b32 %0, %0;" : "+f"(by_first[k]));
            asm volatile("mov.b32 %0, %0;" : "+f"(by_last[k]));
        }
    }

    // The tile's range of a row of diff_dst, from its first pixel on.
    const bool row_begins = tile_column == 0;
    const bool row_ends = tile_end == cut.src_columns;
    int first = 0; // element of a row
    int bytes = 0;
    int into = 0; // where in a slot it begins, but for the remainder by 16
    if constexpr (chunk) {
        const int before = row_begins ? 0 : Kind::lead;
        first = ratio * tile_column * channels - before / element;
        bytes = ratio * (tile_end - tile_column) * channels * element + before
                + (row_ends ? 0 : Kind::lead);
        into = Kind::lead - before;
    } else {
        const int pixel = max(ratio * tile_column - margin, 0);
        const int end = min(ratio * tile_end + margin, ratio * cut.src_columns);
        first = pixel * channels;
        bytes = (end - pixel) * channels * element;
    }
    // Where the strip's window begins: for the first strip of a row before it.
    const int place = chunk
            ? Kind::lead - Kind::aside * element
                    + ratio * (column - tile_column) * channels * element
            : ((ratio * column - margin) * channels + unit - first) * element;

    extern __shared__ __align__(16) unsigned char slots[];
    const int lane = thread % 32;
    const int section = thread / 32 * cut.warp_bytes;
    const int own = section + lane * 16;
    const int section_end = section + cut.warp_bytes - own;
    uint32_t shifts = 0; // 4 bits a row, as many rows as slots
    const auto load = [&](int slot, const Type *from, bool)
            __attribute__((always_inline)) {
        uint32_t shift = 0;
        if constexpr (!chunk) {
            shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from))
                    % 16;
            shifts = shifts << 4 | shift;
        }
        const unsigned char *const begin
                = reinterpret_cast<const unsigned char *>(from) - shift;
        const int held = static_cast<int>(shift) + bytes;
        const int left_of_row = min(held - own, section_end);
        unsigned char *const to = slots + slot * cut.slot_bytes + into + own;
        const unsigned char *const place_of = begin + own;
        if (chunk || readable.end == nullptr
                || (begin >= readable.begin
                        && begin + (held + 15) / 16 * 16 <= readable.end)) {
#pragma unroll
            for (int i = 0; i < Kind::pieces; ++i)
                copy_async_past_l1_if(i * 512 < left_of_row, to + i * 512,
                        place_of + i * 512);
        } else {
            // The first and the last piece of the tensor.
#pragma unroll 1
            for (int i = 0; i < left_of_row; i += 512) {
                const unsigned char *const piece = place_of + i;
                if (piece >= readable.begin && piece + 16 <= readable.end) {
                    copy_async_past_l1_if(true, to + i, piece);
                } else {
#pragma unroll 1
                    for (int at = 0; at < 16; at += element)
                        if (piece + at >= readable.begin
                                && piece + at < readable.end)
                            *reinterpret_cast<Type *>(to + i + at)
                                    = *reinterpret_cast<const Type *>(
                                            piece + at);
                }
            }
        }
    };

    // A row of the strip: the sums of its taps.
    const auto row_of = [&](int slot, const auto &take) {
        // Before the slot, for the first strip of a row.
        const int row_at = slot * cut.slot_bytes + place;
        const auto sum_taps = [&](const sum(&values)[window],
                                      sum(&rows)[columns]) {
#pragma unroll
            for (int s = 0; s < columns; ++s)
#pragma unroll
                for (int k = 0; k < taps; ++k) {
                    const sum by = s == 0      ? by_first[k]
                            : s == columns - 1 ? by_last[k]
                                               : weights.inner[k];
                    const sum value = values[s * ratio + k];
                    rows[s] = k == 0 ? by * value
                                     : add_product(rows[s], by, value);
                }
        };
        const auto beyond = [&](int i) {
            return (i < margin && left) || (i >= window - margin && right);
        };
        if constexpr (chunk) {
            const unsigned char *const row = slots + row_at;
            // Vectors of 16 bytes but for margins of 8.
            constexpr int aside = Kind::aside;
            constexpr int inner = ratio * columns * items;
            constexpr int all = inner + 2 * aside;
            sum values[all];
            const auto fetch = [&]<int at, int count>(bool wanted) {
                pack<Type, count> some {};
                if (wanted)
                    some = pack<Type, count>::load(
                            reinterpret_cast<const Type *>(row) + at);
                sum unpacked[count];
                some.unpack(unpacked);
#pragma unroll
                for (int n = 0; n < count; ++n)
                    values[at + n] = unpacked[n];
            };
            constexpr int widest = 16 / element;
            static_assert(inner % widest == 0);
            constexpr int outer = aside < widest ? aside : widest;
            [&]<int... n>(std::integer_sequence<int, n...>) {
                (fetch.template operator()<n * outer, outer>(!left), ...);
                (fetch.template operator()<aside + inner + n * outer, outer>(
                         !right),
                        ...);
            }
            (std::make_integer_sequence<int, aside / outer>());
            [&]<int... n>(std::integer_sequence<int, n...>) {
                (fetch.template operator()<aside + n * widest, widest>(true),
                        ...);
            }
            (std::make_integer_sequence<int, inner / widest>());
#pragma unroll
            for (int e = 0; e < items; ++e) {
                sum pixels[window];
                sum rows[columns];
#pragma unroll
                for (int i = 0; i < window; ++i)
                    pixels[i] = values[aside + (i - margin) * items + e];
                sum_taps(pixels, rows);
                take(e, rows);
            }
        } else {
            const auto begin
                    = static_cast<uint32_t>(__cvta_generic_to_shared(slots))
                    + static_cast<uint32_t>(row_at)
                    + (shifts >> 4 * (slots_ahead - 1) & 15U);
            uint32_t pixels_at[window];
#pragma unroll
            for (int i = 0; i < window; ++i) {
                pixels_at[i]
                        = begin + static_cast<uint32_t>(i * channels * element);
                // Else every address of an item is computed from the start.
                asm volatile("mov.u32 %0, %0;" : "+r"(pixels_at[i]));
            }
#pragma unroll
            for (int e = 0; e < items; ++e) {
                const uint32_t item = e == items - 1
                        ? static_cast<uint32_t>(last_item * element)
                        : cut.item_bytes[e];
                sum pixels[window];
                sum rows[columns];
#pragma unroll
                for (int i = 0; i < window; ++i) {
                    pixels[i] = 0;
                    if (!beyond(i))
                        pixels[i] = load_shared<Type>(pixels_at[i] + item);
                }
                sum_taps(pixels, rows);
                take(e, rows);
            }
        }
    };
    const auto nothing = [](int, const sum(&)[1][1], bool) {};

    sum low[items][columns] = {};
    sum high[items][columns] = {};
    const auto add = [&](int slot, sum low_weight, sum high_weight) {
        row_of(slot, [&](int e, const sum(&rows)[columns]) {
#pragma unroll
            for (int s = 0; s < columns; ++s) {
                low[e][s] = add_product(low[e][s], low_weight, rows[s]);
                if (high_weight != 0)
                    high[e][s] = add_product(high[e][s], high_weight, rows[s]);
            }
        });
    };
    const auto shift = [&] {
#pragma unroll
        for (int e = 0; e < items; ++e)
#pragma unroll
            for (int s = 0; s < columns; ++s) {
                low[e][s] = high[e][s];
                high[e][s] = 0;
            }
    };
    const auto shift_add = [&](int slot, sum low_weight, sum high_weight) {
        row_of(slot, [&](int e, const sum(&rows)[columns]) {
#pragma unroll
            for (int s = 0; s < columns; ++s) {
                low[e][s] = add_product(high[e][s], low_weight, rows[s]);
                high[e][s] = add_product(sum(0), high_weight, rows[s]);
            }
        });
        if (high_weight != 0) return;
        asm volatile(""); // a branch, and no selections
#pragma unroll
        for (int e = 0; e < items; ++e)
#pragma unroll
            for (int s = 0; s < columns; ++s)
                high[e][s] = 0;
    };
    const auto emit = [&](Type *to, int) {
        if constexpr (chunk) {
            sum outputs[columns * items];
#pragma unroll
            for (int s = 0; s < columns; ++s)
#pragma unroll
                for (int e = 0; e < items; ++e)
                    outputs[s * items + e] = low[e][s];
            constexpr int side = columns * items % 4 == 0 ? 4 : 2;
#pragma unroll
            for (int n = 0; n < columns * items; n += side) {
                sum some[side];
#pragma unroll
                for (int k = 0; k < side; ++k)
                    some[k] = outputs[n + k];
                pack<Type, side>::of(some).stream(to + n);
            }
        } else {
#pragma unroll
            for (int s = 0; s < columns; ++s) {
#pragma unroll
                for (int e = 0; e < items; ++e)
                    stream_one(to + (e == items - 1 ? last_item : e * units),
                            low[e][s]);
                to += channels;
            }
        }
    };
    walk_rows<false, slots_ahead, 1, 1, true, false>(shape, tables,
            int64_t {run}, diff_dst + first,
            diff_src + column * channels + unit, load, nothing, add, emit,
            shift, shift_add);
}

} // namespace gradnn::gpu::interpolation::strips
