// InterpolateBackward, NCX: a warp a tile of columns, columns first.
//
// diff_src[i,j] = sum over q of ww[j,q] * line_i[q],
// line_i[q] = sum over p of wh[p] * diff_dst[p,q].
//
// A tile is a range of source columns with the columns of diff_dst that feed
// them (neighbouring tiles overlap by what both read), or, where rows are
// short, whole rows of several planes side by side, the slots. A block is one
// warp; it has one tile and walks down the rows (interpolation/walk.cuh), by
// itself: no barriers.
//
// Loads: the columns of a tile, slot after slot, are words of `vector`
// neighbouring elements (16-bit types 2, or 1 where rows are at odd elements;
// others 1). Lane l owns words l, l + 32, ..., so every load of a warp is one
// run of memory, 128 bytes of it (f64 256, single 16-bit elements 64), and
// any row length goes. Its columns' sums of two source rows are in registers.
//
// Taps: when a source row is complete, the lanes put their sums into the
// warp's line in shared memory. Lane l owns outputs l, l + 32, ... of the row
// (of 16-bit nearest interpolations pairs of neighbours: then it
// stores both at once), each a sum over a window of the line. Where columns
// have at most 4 taps, their weights stay in registers; the windows of wider
// ratios are read four sums at a time, with weights that all warps of a tile
// share in the L1 cache. A warp that reads every second sum of a line (columns
// enlarged twice) takes two cycles of shared memory, one that reads every r-th
// sum by fours r/4. That is 0.5 to 2 cycles for an element of diff_dst; at the
// copy rate there are three for a 16-bit element.
//
// Every sum runs over ascending rows, then over ascending columns, each
// product added to the sum by one fma, from +0: the same bits on every run,
// whatever the tiles, the words and the alignment. A tap of weight 0 is taken
// only at places of the line beyond both ends of a row, which stay 0.
#pragma once

#include <cstdint>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/columns/sums.cuh"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::columns {

/// pointer + offset in one instruction, however often it is asked.
template <typename Type>
__device__ inline Type *at(Type *pointer, uint32_t offset) {
    Type *sum = nullptr;
    asm("mad.wide.u32 %0, %1, %2, %3;"
            : "=l"(sum)
            : "r"(offset), "n"(sizeof(Type)), "l"(pointer));
    __builtin_assume(__isGlobal(sum));
    return sum;
}

template <typename Type, typename Kind, bool volume>
__global__ void __launch_bounds__(32, (resident_warps<Type, Kind, volume>))
        ncx_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ walk_shape shape,
                const __grid_constant__ walk_tables<sum_of<Type>> tables,
                const __grid_constant__ work_cut ncx) {
    using sum = sum_of<Type>;
    using word = pack<Type, Kind::vector>;
    using quad = four_sums<sum>;
    constexpr int vector = Kind::vector;
    constexpr int words = Kind::words;
    constexpr int outputs = Kind::outputs;
    constexpr int taps = Kind::taps;
    constexpr int side = Kind::side;
    constexpr bool dense = Kind::dense;
    constexpr int quads = Kind::quads;

    extern __shared__ __align__(16) unsigned char shared[];
    auto *const line = reinterpret_cast<sum *>(shared);
    const auto lane = static_cast<int>(threadIdx.x);
    const unsigned tiles = static_cast<unsigned>(ncx.tiles);
    const unsigned run = blockIdx.x / tiles;
    const unsigned tile = blockIdx.x - run * tiles;

    for (int place = lane; place < ncx.line_sums; place += 32)
        line[place] = 0;
    __syncwarp();

    uint32_t from_offset[words];
    constexpr int places = Kind::split ? vector : 1;
    int word_at[words][places];
#pragma unroll
    for (int i = 0; i < words; ++i) {
        const lane_place place = ncx.words[(tile * words + i) * 32 + lane];
        from_offset[i] = place.offset;
        if constexpr (places == 2) {
            word_at[i][0] = place.line & 0xffff;
            word_at[i][1] = place.line >> 16;
        } else {
            word_at[i][0] = place.line;
        }
    }
    uint32_t to_offset[outputs / side];
    int window_at[outputs];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        const lane_place place = ncx.outputs[(tile * outputs + o) * 32 + lane];
        if (o % side == 0) to_offset[o / side] = place.offset;
        window_at[o] = place.line;
    }
    constexpr int held = taps == 0 ? 1 : taps;
    sum by[outputs][held];
    // Which of the taps beyond the sure ones an output has.
    constexpr int perhaps = held - Kind::sure;
    constexpr int masks = (outputs * perhaps + 31) / 32;
    uint32_t wants[masks] = {};
    const quad *far = nullptr;
    if constexpr (taps > 0) {
        const auto *weights = static_cast<const sum *>(ncx.weights);
#pragma unroll
        for (int o = 0; o < outputs; ++o)
#pragma unroll
            for (int k = 0; k < taps; ++k) {
                const int64_t row = int64_t {tile} * outputs + o;
                by[o][k] = quads > 0
                        ? weights[((row * quads + k / 4) * 32 + lane) * 4
                                + k % 4]
                        : weights[(row * taps + k) * 32 + lane];
                if (k >= Kind::sure && by[o][k] != 0) {
                    const int bit = o * perhaps + k - Kind::sure;
                    wants[bit / 32] |= 1U << bit % 32;
                }
            }
    } else {
        far = static_cast<const quad *>(ncx.weights)
                + int64_t {tile} * ncx.quads * (outputs * 32) + lane;
    }
    // Else the compiler makes them again from the weights, for every row.
#pragma unroll
    for (uint32_t &each : wants)
        asm("" : "+r"(each));
    int mine = ncx.items - lane;
    asm("" : "+r"(mine));
    const auto has = [&](int o, int k) {
        const int bit = o * perhaps + k - Kind::sure;
        return k < Kind::sure || (wants[bit / 32] >> bit % 32 & 1U) != 0;
    };

    // Of a dense kind's words the last two alone may lie elsewhere.
    const auto even
            = [](int i) { return dense && !Kind::reduces && i + 2 < words; };

    // The walk commits what `load` submits, and waits for it before it adds.
    constexpr int planes = Kind::template planes<volume>;
    constexpr int depths = Kind::template depths<volume>;
    constexpr int rows = Kind::template ahead<volume> * planes;
    constexpr bool copies = Kind::copies;
    unsigned char *const copied = shared + ncx.line_sums * sizeof(sum);
    word ahead[copies ? 1 : rows][words];
    // Bytes of a slot before the row. Where the walk's loop is not unrolled,
    // halved, three bits for each row loaded, the last one's the lowest: rows
    // are loaded and added in one order, so that no place need be looked up.
    uint32_t shifts[volume ? 1 : rows] = {};
    constexpr bool queues = volume && dense;
    uint64_t shift_queue = 0;
    static_assert(!queues || 3 * rows <= 64);
    const auto shift_of = [&](int slot, int plane) {
        if constexpr (queues)
            return static_cast<uint32_t>(
                           shift_queue >> (3 * (rows - 1 - plane)))
                    % 8 * 2;
        else
            return shifts[slot];
    };
    constexpr int slot_bytes = Kind::slot_bytes;
    const uint32_t tile_offset = ncx.words[tile * words * 32].offset;
    const int32_t row_bytes = dense ? ncx.row_bytes[tile] : 0;
    const auto load = [&](int slot, const Type *from, bool wanted)
            __attribute__((always_inline)) {
        if constexpr (dense) {
            const auto row = reinterpret_cast<uintptr_t>(at(from, tile_offset));
            const uint32_t shift = static_cast<uint32_t>(row) % 16;
            if constexpr (queues)
                shift_queue = shift_queue << 3 | shift / 2;
            else
                shifts[slot] = shift;
            const auto *const place
                    = reinterpret_cast<const unsigned char *>(row - shift)
                    + lane * 16;
            unsigned char *const to = copied + slot * slot_bytes + lane * 16;
            const int32_t bytes
                    = static_cast<int32_t>(shift) + row_bytes - lane * 16;
            constexpr int pieces = words * vector * Kind::bytes / 16 + 1;
#pragma unroll
            for (int i = 0; i < pieces; ++i)
                copy_async_past_l1_if(wanted && i * 512 < bytes, to + i * 512,
                        place + i * 512);
        } else {
#pragma unroll
            for (int i = 0; i < words; ++i) {
                const Type *const place = at(from, from_offset[i]);
                if constexpr (copies)
                    copy_async_if<sizeof(word)>(wanted,
                            reinterpret_cast<word *>(copied)
                                    + (slot * words + i) * 32 + lane,
                            place);
                else
                    ahead[slot][i] = word::load(place);
            }
        }
    };
    // Word i of a slot, which is that of a plane of the step.
    const auto loaded = [&](int slot, int i, int plane = 0) {
        if constexpr (dense)
            return reinterpret_cast<const word *>(copied + slot * slot_bytes
                    + shift_of(slot, plane))[i * 32 + lane];
        else if constexpr (copies)
            return reinterpret_cast<const word *>(
                    copied)[(slot * words + i) * 32 + lane];
        else
            return ahead[slot][i];
    };
    // Of a volume: a row, summed over the planes that feed a depth.
    sum row_sums[depths][volume ? words : 1][vector] = {};
    const auto gather = [&](int slot, const sum(&plane_weights)[planes][depths],
                                bool anew) {
        if constexpr (volume) {
            if (anew)
#pragma unroll
                for (int d = 0; d < depths; ++d)
#pragma unroll
                    for (int i = 0; i < words; ++i)
                        clear_sums(row_sums[d][i]);
            add_planes<Kind::batch>(row_sums, plane_weights, slot, loaded);
        }
    };
    const auto take_word = [&](int slot, int d, int i, sum(&values)[vector]) {
        if constexpr (volume) {
            copy_sums(values, row_sums[d][i]);
        } else {
            loaded(slot, i).unpack(values);
        }
    };
    sum low[depths][words][vector] = {};
    sum high[depths][words][vector] = {};
    // Whether any row was added; where columns are reduced, rows often are too
    // and most rows of diff_src are zeros.
    bool low_any = false;
    bool high_any = false;
    const auto add = [&](int slot, sum low_weight, sum high_weight) {
        const bool both = high_weight != 0;
        low_any = true;
        high_any = high_any || both;
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum values[words][vector];
#pragma unroll
            for (int i = 0; i < words; ++i) {
                take_word(slot, d, i, values[i]);
                add_products(low[d][i], low[d][i], low_weight, values[i]);
            }
            if (!both) continue;
#pragma unroll
            for (int i = 0; i < words; ++i)
                add_products(high[d][i], high[d][i], high_weight, values[i]);
        }
    };
    const auto shift = [&] {
        low_any = high_any;
        high_any = false;
#pragma unroll
        for (int d = 0; d < depths; ++d)
#pragma unroll
            for (int i = 0; i < words; ++i)
                shift_sums(low[d][i], high[d][i]);
    };
    const auto shift_add = [&](int slot, sum low_weight, sum high_weight) {
        low_any = true;
        high_any = high_weight != 0;
#pragma unroll
        for (int d = 0; d < depths; ++d)
#pragma unroll
            for (int i = 0; i < words; ++i) {
                sum values[vector];
                take_word(slot, d, i, values);
#pragma unroll
                for (int e = 0; e < vector; ++e) {
                    low[d][i][e]
                            = add_product(high[d][i][e], low_weight, values[e]);
                    high[d][i][e] = add_product(sum(0), high_weight, values[e]);
                }
            }
        if (high_weight == 0) {
            asm volatile(""); // a branch, and no selections
#pragma unroll
            for (int d = 0; d < depths; ++d)
#pragma unroll
                for (int i = 0; i < words; ++i)
                    clear_sums(high[d][i]);
        }
    };
    // Units of a lane are outputs, or pairs of them that are stored at once.
    const auto store = [&](Type *to, int o, const sum(&totals)[Kind::group]) {
        Type *const first = at(to, to_offset[0]);
#pragma unroll
        for (int g = 0; g < Kind::group; g += side) {
            if (o + g >= outputs) continue;
            sum some[side];
#pragma unroll
            for (int s = 0; s < side; ++s)
                some[s] = totals[g + s];
            const auto packed = pack<Type, side>::of(some);
            const int item = (o + g) / side;
            if constexpr (dense) {
                if (item * 32 < mine) packed.stream(first + item * 32 * side);
            } else {
                packed.stream(at(to, to_offset[item]));
            }
        }
    };
    const auto emit = [&](Type *to, int d) {
        if (Kind::reduces && !low_any) {
            const sum nothing[Kind::group] = {};
#pragma unroll
            for (int o = 0; o < outputs; o += Kind::group) {
                if (o > 0 && o / side * 32 >= ncx.items) break;
                store(to, o, nothing);
            }
            return;
        }
        sum *const first = line + word_at[0][0];
#pragma unroll
        for (int i = 0; i < words; ++i) {
            sum *const place = even(i) && !Kind::split ? first + 32 * vector * i
                                                       : line + word_at[i][0];
            if constexpr (vector == 2 && places == 1) {
                *reinterpret_cast<float2 *>(place)
                        = make_float2(low[d][i][0], low[d][i][1]);
            } else {
                *place = low[d][i][0];
                if constexpr (places == 2) line[word_at[i][1]] = low[d][i][1];
            }
        }
        __syncwarp();
#pragma unroll
        for (int o = 0; o < outputs; o += Kind::group) {
            if (o > 0 && o / side * 32 >= ncx.items) break;
            sum totals[Kind::group];
            if constexpr (taps > 0)
                sum_held<Kind>(totals, line, window_at, by, o, has);
            else
                sum_far<Kind>(totals, line, window_at, far, ncx.quads, o);
            store(to, o, totals);
        }
        __syncwarp();
    };
    walk_rows<volume, rows / planes, planes, depths>(shape, tables,
            int64_t {run}, diff_dst, diff_src, load, gather, add, emit, shift,
            shift_add);
}

} // namespace gradnn::gpu::interpolation::columns
