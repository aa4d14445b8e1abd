// InterpolateBackward, NCX, columns enlarged 2, 4 or 8 times.
//
// diff_src[i,j] = sum over t of ww[j,t] * line_i[ratio*j - left + t],
// line_i[q] = sum over p of wh[p] * diff_dst[p,q],
//
// 0 <= t < ratio + left + right: where columns are enlarged by a whole number,
// the taps of every source column lie at the same place relative to it. The
// margins are left = right = ratio/2 (linear: half_pixel, and align_corners
// where it fits), left = ratio - 1 and right = 0 (linear, asymmetric) or 0
// (nearest).
//
// A lane owns 16 bytes (f64: 32) of the columns of diff_dst and so the source
// columns over them; a warp walks down the rows (interpolation/walk.cuh) with
// the column sums of two source rows in registers. When a source row is
// complete, a lane gets the sums of its margins from its neighbours by
// shuffles and writes its source columns in one store. Rows longer than a warp
// are cut into tiles, whose outermost lanes load their outer margin themselves;
// of short rows a warp has several, of different planes.
//
// Every sum runs over ascending rows, then over ascending columns, in one lane:
// the same bits on every run. A tap of weight 0 lies beyond the row, where the
// line is 0, so it adds nothing.
#pragma once

#include <cstdint>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::bands {

constexpr int threads = 128;
constexpr int warps = threads / 32;

/// Planes of diff_src that a run has at once, where the depth is resampled.
constexpr int depths_at_once = 2;

template <typename Type>
constexpr int elements_of_lane = sizeof(Type) == 2 ? 8 : 4;

struct work_cut {
    int64_t slot_dst_pitch = 0; ///< between planes side by side
    int64_t slot_src_pitch = 0;
    int64_t runs = 0;
    int32_t columns = 0; ///< of diff_dst
    int32_t slots = 1; ///< planes of a warp
    int32_t slot_lanes = 32;
    int32_t tiles = 1;
};

/// As many elements as a lane owns, in 16-byte words.
template <typename Type>
struct lane_words {
    static constexpr int count = elements_of_lane<Type>;
    static constexpr int each
            = 16 / sizeof(Type) < count ? 16 / sizeof(Type) : count;
    using part = pack<Type, each>;
    part parts[count / each];

    __device__ void unpack(sum_of<Type> (&values)[count]) const {
#pragma unroll
        for (int i = 0; i < count / each; ++i) {
            sum_of<Type> some[each];
            parts[i].unpack(some);
#pragma unroll
            for (int e = 0; e < each; ++e)
                values[i * each + e] = some[e];
        }
    }
};

template <typename Type, int ratio, int left, int right, bool volume>
__global__ void __launch_bounds__(threads) bands_kernel(const Type *diff_dst,
        Type *diff_src, const __grid_constant__ walk_shape shape,
        const __grid_constant__ walk_tables<sum_of<Type>> tables,
        const __grid_constant__ work_cut bands, const sum_of<Type> *weights) {
    using sum = sum_of<Type>;
    constexpr int own = elements_of_lane<Type>;
    constexpr int outputs = own / ratio;
    constexpr int taps = ratio + left + right;
    constexpr bool linear = left > 0;
    constexpr int ahead = volume ? 3 : sizeof(Type) == 8 ? 4 : 6;
    constexpr int planes = !volume ? 1
            : sizeof(Type) == 8    ? 2
            : ratio == 2           ? 6 // all that feed two depths
                                   : 4;
    constexpr int depths = volume ? depths_at_once : 1;
    constexpr int row_slots = ahead * planes;
    // The outer sums that a lane holds; of a left margin the last ones count.
    constexpr int held = left <= 1 ? 1 : left <= 2 ? 2 : left <= 4 ? 4 : 8;
    static_assert(right <= left && left <= held && held <= own);
    using margin_words = pack<Type, held>;
    constexpr int least = 4 / static_cast<int>(sizeof(Type));
    constexpr int edge_elements = held > least ? held : least;
    using edge_words = pack<Type, edge_elements>;

    const int64_t number = blockIdx.x * int64_t(warps) + threadIdx.x / 32;
    const int64_t run = number / bands.tiles;
    const auto tile = static_cast<int>(number - run * bands.tiles);
    if (run >= bands.runs) return; // a whole warp
    const auto lane = static_cast<int>(threadIdx.x) % 32;
    const int slot = min(lane / bands.slot_lanes, bands.slots - 1);
    const int member = lane - slot * bands.slot_lanes;
    const int wanted = (tile * bands.slot_lanes + member) * own;
    const bool writes = member < bands.slot_lanes && wanted < bands.columns;
    // Lanes without work read what another reads.
    const int column = min(wanted, bands.columns - own);
    const bool first = member == 0;
    const bool last
            = member == bands.slot_lanes - 1 || column + own == bands.columns;
    // A tile's outer margins, where the row goes on.
    const bool before = first && column > 0;
    const bool after = last && column + own < bands.columns;
    const bool outer = (left > 0 && before) || (right > 0 && after);
    sum by[outputs][taps];
    const int source_column = column / ratio;
#pragma unroll
    for (int k = 0; k < outputs; ++k)
#pragma unroll
        for (int t = 0; t < taps; ++t)
            by[k][t] = weights[(source_column + k) * taps + t];

    // Rows on their way: a lane reads what it copied itself. Outer margins come
    // as words of at least 4 bytes, of which `edge` points to the margin; where
    // a lane has none, they stay 0.
    using words = lane_words<Type>;
    using part = typename words::part;
    constexpr int parts = sizeof(words) / sizeof(part);
    __shared__ part rows_of[row_slots][parts][threads];
    __shared__ edge_words edges_of[row_slots][threads];
    const int edge_at = before ? -edge_elements : own;
    const auto *const edge
            = reinterpret_cast<const Type *>(&edges_of[0][threadIdx.x])
            + (before ? edge_elements - held : 0);
    if (!outer)
#pragma unroll
        for (int i = 0; i < row_slots; ++i)
            edges_of[i][threadIdx.x] = edge_words {};
    const auto load = [&](int i, const Type *from, bool wanted) {
#pragma unroll
        for (int p = 0; p < parts; ++p)
            copy_async_if<sizeof(part)>(wanted, &rows_of[i][p][threadIdx.x],
                    from + p * words::each);
        if constexpr (linear)
            copy_async_if<sizeof(edge_words)>(
                    wanted && outer, &edges_of[i][threadIdx.x], from + edge_at);
    };
    const auto unpack
            = [&](int i, sum(&values)[own], sum(&outer_values)[held]) {
                  words row;
#pragma unroll
                  for (int p = 0; p < parts; ++p)
                      row.parts[p] = rows_of[i][p][threadIdx.x];
                  row.unpack(values);
                  if constexpr (linear)
                      reinterpret_cast<const margin_words *>(
                              edge + i * (threads * edge_elements))
                              ->unpack(outer_values);
              };
    // Of a volume: a row, summed over the planes that feed a depth.
    sum row[depths][volume ? own : 1] = {};
    sum outer_row[depths][volume ? held : 1] = {};
    const auto gather
            = [&](int i, const sum(&plane_weights)[planes][depths], bool anew) {
                  if constexpr (volume) {
                      if (anew) {
#pragma unroll
                          for (int d = 0; d < depths; ++d) {
                              clear_sums(row[d]);
                              clear_sums(outer_row[d]);
                          }
                      }
#pragma unroll
                      for (int k = 0; k < planes; ++k) {
                          if (!any_weight(plane_weights[k])) continue;
                          sum values[own];
                          sum outer_values[held] = {};
                          unpack(i + k, values, outer_values);
#pragma unroll
                          for (int d = 0; d < depths; ++d) {
                              const sum weight = plane_weights[k][d];
                              if (weight == 0) continue;
                              add_products(row[d], row[d], weight, values);
                              add_products(outer_row[d], outer_row[d], weight,
                                      outer_values);
                          }
                      }
                  }
              };
    const auto take_row
            = [&](int i, int d, sum(&values)[own], sum(&outer_values)[held]) {
                  if constexpr (volume) {
                      copy_sums(values, row[d]);
                      copy_sums(outer_values, outer_row[d]);
                  } else {
                      unpack(i, values, outer_values);
                  }
              };
    sum low[depths][own] = {};
    sum high[depths][own] = {};
    sum outer_low[depths][held] = {};
    sum outer_high[depths][held] = {};
    const auto add = [&](int i, sum low_weight, sum high_weight) {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum values[own];
            sum outer_values[held];
            take_row(i, d, values, outer_values);
            add_products(low[d], low[d], low_weight, values);
            if constexpr (linear)
                add_products(
                        outer_low[d], outer_low[d], low_weight, outer_values);
            // Nearest has no second row.
            if (linear && high_weight != 0) {
                add_products(high[d], high[d], high_weight, values);
                add_products(outer_high[d], outer_high[d], high_weight,
                        outer_values);
            }
        }
    };
    const auto shift = [&] {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            shift_sums(low[d], high[d]);
            shift_sums(outer_low[d], outer_high[d]);
        }
    };
    const auto shift_add = [&](int i, sum low_weight, sum high_weight) {
#pragma unroll
        for (int d = 0; d < depths; ++d) {
            sum values[own];
            sum outer_values[held];
            take_row(i, d, values, outer_values);
            add_products(low[d], high[d], low_weight, values);
            if constexpr (linear) {
                add_products(
                        outer_low[d], outer_high[d], low_weight, outer_values);
                begin_sums(high[d], high_weight, values);
                begin_sums(outer_high[d], high_weight, outer_values);
            }
        }
    };
    const auto emit = [&](Type *to, int d) {
        sum window[taps + own - ratio];
#pragma unroll
        for (int e = 0; e < left; ++e) {
            const sum from
                    = __shfl_up_sync(0xffffffffU, low[d][own - left + e], 1);
            // outer_low is 0 where the row ends, and no lane is at both ends of
            // a tile that it goes on beyond.
            window[e] = first ? outer_low[d][held - left + e] : from;
        }
#pragma unroll
        for (int e = 0; e < right; ++e) {
            const sum from = __shfl_down_sync(0xffffffffU, low[d][e], 1);
            window[left + own + e] = last ? outer_low[d][e] : from;
        }
#pragma unroll
        for (int e = 0; e < own; ++e)
            window[left + e] = low[d][e];
        sum totals[outputs];
#pragma unroll
        for (int k = 0; k < outputs; ++k) {
            totals[k] = 0;
#pragma unroll
            for (int t = 0; t < taps; ++t)
                totals[k] = add_product(
                        totals[k], by[k][t], window[k * ratio + t]);
        }
        if (writes) pack<Type, outputs>::of(totals).stream(to);
    };
    walk_rows<volume, ahead, planes, depths>(shape, tables, run,
            diff_dst + slot * bands.slot_dst_pitch + column,
            diff_src + slot * bands.slot_src_pitch + source_column, load,
            gather, add, emit, shift, shift_add);
}

} // namespace gradnn::gpu::interpolation::bands
