// InterpolateBackward, NXC, any number of channels and taps (of 16-bit types
// more than 8 taps): a thread a few columns of diff_dst between two source
// columns.
//
// diff_src[i,j,c] = sum over k of v[k] * line_i[j-1][k,c]
//                 + sum over k of w[k] * line_i[j][k,c],
// line_i[m][k,c] = sum over q of wh[q] * diff_dst[q, first(m) + k, c].
//
// The columns of diff_dst that lie between the source columns m and m + 1, an
// interval, feed these two alone, by w and v. A thread has a channel of an
// interval (or of a part of one, where that has many columns), an item, or
// several: 16 elements of a row (f64: 8). It walks down the rows with its
// block (interpolation/walk.cuh), reads each of its elements once from shared
// memory, and keeps, for each, the sums of the two source rows that a row
// feeds. When a source row is complete, it takes the two sums along the row;
// that for the next source column goes through a line of shared memory to the
// thread that has the interval there, which writes the source column.
//
// Rows are copied to shared memory some rows ahead, in pieces of 16 bytes at
// multiples of 16: from the piece that a row of the tile begins in to that which
// it ends in, so that any number of channels and any alignment go. No piece is
// read that holds nothing of the tensor; of the tensor's last piece, where it
// is not all in the tensor, single elements. Neighbouring tiles both read the
// interval between them.
//
// Instructions a lane and element, bf16 (f32: 1 less), at 16 elements a row:
// 4.5 for the read, the conversion and the two products, 4.5 for the walk, 1.5
// for the copies of whole pixels (3 of runs of channels), 2 for a source row
// complete every 4 rows and 4 every 2 rows. At the copy rate an H200 has 13 (26
// for f32).
//
// Every sum runs over ascending rows (over ascending depths in between, where
// the depth is resampled), then over ascending columns of an interval, then
// over its parts, from +0, each product added by one fma: the same bits on
// every run, whatever the tiles and the alignment. A tap of weight 0 is never
// taken.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/intervals/tables.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::intervals {

/// Threads of a block: many where intervals are wide, so that it has several.
__host__ __device__ constexpr int threads_of(int64_t taps) {
    return taps >= 8 ? 256 : 128;
}
/// Rows that have room in shared memory, all but one of them on their way: a
/// power of two, and 4 bits for each are 32 at most.
__host__ __device__ constexpr int slots_of(int64_t taps, int64_t element) {
    return taps >= 8 && element == 2 ? 8 : 4;
}
/// Two blocks of them have room on a multiprocessor.
constexpr int64_t most_shared_bytes = 108 * 1024;

/// Elements of a row of diff_dst that a thread has.
template <typename Sum>
constexpr int elements_of_thread = sizeof(Sum) == 8 ? 8 : 16;

/// Where a tensor ends: in the piece of 16 bytes at `piece`, after `elements`.
struct tensor_end {
    const unsigned char *piece = nullptr;
    int elements = 0;
};

/// Blocks of a multiprocessor, at least: as many as leave no register in memory.
constexpr int resident_blocks(int64_t taps, bool volume) {
    return volume && taps < 8 ? 3 : 512 / threads_of(taps);
}

template <typename Type, int taps, bool volume>
__global__ void __launch_bounds__(threads_of(taps),
        (resident_blocks(taps, volume))) intervals_kernel(const Type *diff_dst,
        Type *diff_src, const __grid_constant__ walk_shape shape,
        const __grid_constant__ walk_tables<sum_of<Type>> tables,
        const __grid_constant__ work_cut cut,
        const int32_t *__restrict__ first_of_part,
        const weight_pair<sum_of<Type>> *__restrict__ weights,
        const tensor_end end) {
    using sum = sum_of<Type>;
    using pair = weight_pair<sum>;
    constexpr int threads = threads_of(taps);
    constexpr int slots_ahead = slots_of(taps, sizeof(Type));
    constexpr int items = elements_of_thread<sum> / taps;
    constexpr int pitch = taps + 1; // of the weights
    // Where all parts are short, the last quarter of the taps is left out.
    constexpr int short_taps = taps > 2 ? taps * 3 / 4 : taps;

    const auto thread = static_cast<int>(threadIdx.x);
    const int tiles = cut.column_tiles * cut.channel_tiles;
    const int64_t run = blockIdx.x / tiles;
    const auto tile = static_cast<int>(blockIdx.x - run * tiles);
    const int column_tile = tile / cut.channel_tiles;
    const int channel_tile = tile - column_tile * cut.channel_tiles;
    const int first_column = first_of_tile(cut, column_tile);
    const int channel = min(
            channel_tile * cut.tile_channels, cut.channels - cut.tile_channels);
    const tile_span span = span_of_tile(cut, first_of_part, first_column);

    extern __shared__ __align__(16) unsigned char shared[];
    unsigned char *const slots = shared;
    auto *const lines
            = reinterpret_cast<sum *>(slots + slots_ahead * cut.slot_bytes);
    constexpr int line_sums = threads * items;
    const bool has_lines = cut.lead + cut.parts > 1;
    auto *const pairs
            = reinterpret_cast<pair *>(lines + (has_lines ? 2 * line_sums : 0));

    const int tile_parts = (cut.tile_columns + cut.lead) * cut.parts;
    const int first_part = first_column * cut.parts;
#pragma unroll 1
    for (int i = thread; i < tile_parts * pitch; i += threads)
        pairs[i] = weights[int64_t {first_part} * pitch + i];

    int place[items]; // in a slot, bytes
    int pairs_at[items];
    int out[items]; // in diff_src, elements
    bool writes[items];
#pragma unroll
    for (int e = 0; e < items; ++e) {
        // Threads beyond the items do as the last one does, and write nothing.
        const int item = thread + e * threads;
        const int mine = min(item, cut.items - 1);
        const int part = mine / cut.tile_channels;
        const int c = mine - part * cut.tile_channels;
        const int column = part / cut.parts - cut.lead;
        place[e] = (first_of_part[first_part + part] - span.first)
                        * cut.column_bytes
                + c * static_cast<int>(sizeof(Type));
        pairs_at[e] = part * pitch;
        out[e] = static_cast<int>(column * cut.src_column_pitch) + c;
        writes[e] = item < cut.items && column >= 0;
    }
    __syncthreads();

    // Whether every weight that the warp has is one, so that it need not look.
    bool all_weights = true;
#pragma unroll
    for (int e = 0; e < items; ++e)
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            const pair by = pairs[pairs_at[e] + k];
            if (!(k >= short_taps && cut.is_short))
                all_weights = all_weights && by.low != 0
                        && (cut.lead == 0 || by.high != 0);
        }
    all_weights = __all_sync(0xffffffffU, all_weights);

    // Bytes to the tile's end from its beginning in a row, and those from one
    // column to the next.
    const int step = static_cast<int>(cut.dst_column_pitch * sizeof(Type));
    const int run_bytes = cut.tile_channels * static_cast<int>(sizeof(Type));
    const int bytes = (span.count - 1) * step + run_bytes;
    // Where runs lie apart: the first that this thread copies a piece of, that
    // piece, in the slot and from the 16 bytes in memory that an aligned row
    // begins with, and how far into it the run begins.
    constexpr auto piece = static_cast<int>(piece_bytes);
    const int own_run = thread / cut.run_pieces;
    const int own_piece = (thread - own_run * cut.run_pieces) * piece;
    const int runs = own_run < cut.runs_at_once ? span.count - own_run : 0;
    const int remainder
            = static_cast<int>(static_cast<unsigned>(own_run * cut.column_bytes)
                    % static_cast<unsigned>(piece));
    const int into = remainder - own_piece;
    const int slot_offset = own_run * cut.column_bytes - into;
    const int offset = own_run * step - into;
    const auto copy_piece
            = [&](auto inside, unsigned char *to, const unsigned char *from) {
                  if (decltype(inside)::value || from < end.piece) {
                      copy_async_past_l1(to, from);
                  } else {
#pragma unroll 1
                      for (int i = 0; i < end.elements; ++i)
                          reinterpret_cast<Type *>(to)[i]
                                  = reinterpret_cast<const Type *>(from)[i];
                  }
              };
    // `inside` says whether all pieces are in the tensor.
    const auto copy_row = [&](auto inside, unsigned char *to,
                                  const unsigned char *from, int shift) {
        constexpr int round = sizeof(Type) < 4 ? 2 : 4; // mostly the only one
        if (!cut.apart) {
            to += thread * piece;
            from += thread * piece - shift;
#pragma unroll 1
            for (int left = shift + bytes - thread * piece; left > 0;
                    left -= round * threads * piece) {
#pragma unroll
                for (int i = 0; i < round; ++i)
                    if (left > i * threads * piece)
                        copy_piece(inside, to + i * threads * piece,
                                from + i * threads * piece);
                to += round * threads * piece;
                from += round * threads * piece;
            }
        } else {
            if (into + shift <= -run_bytes || into + shift >= piece) return;
            to += slot_offset;
            from += offset - shift;
#pragma unroll 1
            for (int left = runs; left > 0; left -= round * cut.runs_at_once) {
#pragma unroll
                for (int i = 0; i < round; ++i) {
                    if (left > i * cut.runs_at_once)
                        copy_piece(inside, to, from);
                    to += cut.runs_at_once * cut.column_bytes;
                    from += cut.runs_at_once * step;
                }
            }
        }
    };
    // Bytes of a slot before the row, 4 bits a row: when a row is added, the
    // `slots_ahead - 1` after it have been loaded (interpolation/walk.cuh).
    uint32_t shifts = 0;
    const auto load = [&](int slot, const Type *row, bool) {
        const auto *const from = reinterpret_cast<const unsigned char *>(row);
        const auto shift = static_cast<uint32_t>(
                reinterpret_cast<uintptr_t>(from) % piece_bytes);
        shifts = shifts << 4 | shift;
        unsigned char *const to = slots + slot * cut.slot_bytes;
        if (from + bytes + (piece - 1) <= end.piece)
            copy_row(std::true_type {}, to, from, static_cast<int>(shift));
        else
            copy_row(std::false_type {}, to, from, static_cast<int>(shift));
    };

    const auto read = [&](int slot, sum(&values)[taps][items]) {
        const unsigned char *const row = slots
                + (slot * cut.slot_bytes
                        + static_cast<int>(
                                shifts >> 4 * (slots_ahead - 1) & 15U));
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            if (k == short_taps && cut.is_short) break;
#pragma unroll
            for (int e = 0; e < items; ++e)
                values[k][e] = widen(*reinterpret_cast<const Type *>(
                        row + place[e] + k * cut.column_bytes));
        }
    };
    const auto for_each_element = [&](const auto &body) {
#pragma unroll
        for (int k = 0; k < taps; ++k) {
            if (k == short_taps && cut.is_short) break;
#pragma unroll
            for (int e = 0; e < items; ++e)
                body(k, e);
        }
    };
    // Sums of two source rows. Those of columns that an item has not are of
    // other columns, and none looks at them.
    sum low[taps][items] = {};
    sum high[taps][items] = {};
    // Of a volume: a row, summed over planes.
    sum planes[volume ? taps : 1][items] = {};
    const auto gather = [&](int slot, const sum(&plane_weights)[1][1],
                                bool anew) {
        if constexpr (volume) {
            if (anew) for_each_element([&](int k, int e) { planes[k][e] = 0; });
            const sum weight = plane_weights[0][0];
            if (weight == 0) return;
            sum values[taps][items];
            read(slot, values);
            for_each_element([&](int k, int e) {
                planes[k][e] = add_product(planes[k][e], weight, values[k][e]);
            });
        }
    };
    const auto take_row = [&](int slot, sum(&values)[taps][items]) {
        if constexpr (volume) {
#pragma unroll
            for (int k = 0; k < taps; ++k)
#pragma unroll
                for (int e = 0; e < items; ++e)
                    values[k][e] = planes[k][e];
        } else {
            read(slot, values);
        }
    };
    const auto add = [&](int slot, sum low_weight, sum high_weight) {
        sum values[taps][items];
        take_row(slot, values);
        for_each_element([&](int k, int e) {
            low[k][e] = add_product(low[k][e], low_weight, values[k][e]);
        });
        if (high_weight == 0) return;
        for_each_element([&](int k, int e) {
            high[k][e] = add_product(high[k][e], high_weight, values[k][e]);
        });
    };
    const auto shift_rows = [&] {
        for_each_element([&](int k, int e) {
            low[k][e] = high[k][e];
            high[k][e] = 0;
        });
    };
    const auto shift_add = [&](int slot, sum low_weight, sum high_weight) {
        sum values[taps][items];
        take_row(slot, values);
        for_each_element([&](int k, int e) {
            low[k][e] = add_product(high[k][e], low_weight, values[k][e]);
            high[k][e] = add_product(sum(0), high_weight, values[k][e]);
        });
        if (high_weight != 0) return;
        asm volatile(""); // a branch, and no selections
        for_each_element([&](int k, int e) { high[k][e] = 0; });
    };

    // Along the complete row: what its items give to either source column.
    const auto sum_taps = [&](sum(&to_low)[items], sum(&to_high)[items]) {
#pragma unroll
        for (int e = 0; e < items; ++e)
            to_low[e] = to_high[e] = 0;
        if (all_weights) {
            for_each_element([&](int k, int e) {
                const pair by = pairs[pairs_at[e] + k];
                to_low[e] = add_product(to_low[e], by.low, low[k][e]);
                to_high[e] = add_product(to_high[e], by.high, low[k][e]);
            });
        } else {
            for_each_element([&](int k, int e) {
                const pair by = pairs[pairs_at[e] + k];
                if (by.low != 0)
                    to_low[e] = add_product(to_low[e], by.low, low[k][e]);
                if (by.high != 0)
                    to_high[e] = add_product(to_high[e], by.high, low[k][e]);
            });
        }
    };
    // Two lines take turns, so that a thread that writes the one meets none that
    // still reads it.
    int turn = 0;
    const auto emit = [&](Type *to, int) {
        sum to_low[items];
        sum to_high[items];
        sum_taps(to_low, to_high);
        if (cut.parts == 1) {
            if (cut.lead != 0) {
                sum *const line = lines + turn;
                turn = line_sums - turn;
#pragma unroll
                for (int e = 0; e < items; ++e)
                    line[thread + e * threads] = to_high[e];
                __syncthreads();
#pragma unroll
                for (int e = 0; e < items; ++e)
                    if (writes[e])
                        to_low[e] += line[thread + e * threads
                                - cut.tile_channels];
            }
#pragma unroll
            for (int e = 0; e < items; ++e)
                if (writes[e]) stream_one(to + out[e], to_low[e]);
            return;
        }
        // Parts of intervals: their sums, then the sums of these.
#pragma unroll
        for (int e = 0; e < items; ++e) {
            lines[thread + e * threads] = to_low[e];
            lines[line_sums + thread + e * threads] = to_high[e];
        }
        __syncthreads();
#pragma unroll 1
        for (int i = thread; i < cut.tile_columns * cut.tile_channels;
                i += threads) {
            const int column = i / cut.tile_channels;
            const int c = i - column * cut.tile_channels;
            sum total = 0;
            const auto add_parts = [&](const sum *line, int interval) {
#pragma unroll 1
                for (int part = 0; part < cut.parts; ++part)
                    total += line[(interval * cut.parts + part)
                                    * cut.tile_channels
                            + c];
            };
            if (cut.lead != 0) add_parts(lines + line_sums, column);
            add_parts(lines, column + cut.lead);
            stream_one(to + column * cut.src_column_pitch + c, total);
        }
        __syncthreads();
    };
    walk_rows<volume, slots_ahead, 1, 1, true, false>(shape, tables, run,
            diff_dst + span.first * cut.dst_column_pitch + channel,
            diff_src + first_column * cut.src_column_pitch + channel, load,
            gather, add, emit, shift_rows, shift_add);
}

} // namespace gradnn::gpu::interpolation::intervals
