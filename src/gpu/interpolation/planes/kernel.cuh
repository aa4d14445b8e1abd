// InterpolateBackward, NCX, many small planes: a block takes several at a time.
//
// diff_src[i,j] = sum over q of ww[j,q] * line_i[q],
// line_i[q] = sum over p of wh[p] * diff_dst[p,q].
//
// Planes lie one behind the other, so a chunk of them is one range of memory,
// whose bytes do not care how short its rows are: a block copies it in pieces of
// 16 bytes to one of two stages in shared memory (chunks begin at multiples of
// 16 bytes), while it works on the other stage. Blocks stay and take every
// gridDim.x-th chunk.
//
// Rows: a thread owns a word of `vector` neighbouring columns in `abreast`
// planes of the chunk (8 bytes in all) and walks down the rows, which are the
// same for its whole warp: each is read once and added to the two source rows
// that it feeds. A finished source row goes to the line, which has a row for
// every source row of the chunk. Tall planes are cut into segments of source
// rows, one for each part of the block; neighbouring segments both read the
// rows that feed both. Which planes lie side by side in a warp (`order`) and the
// pitch of the line are chosen at compile for few bank conflicts.
//
// Columns: neighbouring threads own neighbouring elements of diff_src. A pass of
// the block covers whole rows, so a thread keeps its column: its weights stay in
// registers and every address advances by a constant. Windows of the line begin
// anywhere (at most 2 or 4 taps), or at multiples of 2 or 4 sums, read 2 or 4 at
// once. For more taps the weights come from memory. 16-bit elements are stored
// one by one: pairs would lie so that their windows conflict.
//
// Instructions a lane of an element of diff_dst, counted in the machine code
// (compute capability 9.0) for planes of 14x14 from 7x7, f32 and bf16: rows 10.7
// and 7.8 (two rows for every source row have a path of their own), columns 3.1
// and 3.4, copies 2.5 and 1.3, a chunk's start and end 4 and 2. At the copy rate
// of an H200 35 and 17 can be issued. Shared memory takes about 3.4 and 4.2 turns
// for 32 elements; 8.8 and 4.4 fit in.
//
// Every sum runs over ascending rows, then over ascending columns, each product
// added by one fma, from +0: the same bits on every run, whatever the chunks,
// the segments and the alignment. A tap of weight 0 is never taken, but on
// places of the line beyond both ends of a row, which stay 0.
#pragma once

#include <cstdint>

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/planes/tables.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::planes {

template <typename Sum>
struct kernel_tables {
    const weighted_row<Sum> *row_weights = nullptr;
    const int32_t *row_counts = nullptr; ///< [source row]
    const int32_t *order = nullptr; ///< [slot]: its first plane
    const int32_t *windows = nullptr; ///< [column]: place in a row of the line
    /// [column][tap], or in fours [four][column][4].
    const Sum *weights = nullptr;
};

/// Neighbouring sums of the line, read at once.
template <typename Sum, int count>
struct alignas(
        count * sizeof(Sum) > 16 ? 16 : count * sizeof(Sum)) planes_sums {
    Sum values[count];
};

/// `taps` of a window, at most (0: any number, in fours), which begins at a
/// multiple of `align` sums. Windows of fixed length that begin at multiples
/// have taps of weight 0 beyond the ends of a row alone.
template <int taps_, int align_>
struct window_kind {
    static constexpr int taps = taps_;
    static constexpr int align = align_;
    static constexpr bool sure = taps > 0 && align > 1;
};

/// `pieces`: diff_dst lies at a multiple of 16 bytes.
template <typename Type, int vector, typename Window>
__global__ void __launch_bounds__(most_threads, 5)
        planes_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ work_cut shape,
                const __grid_constant__ kernel_tables<sum_of<Type>> tables,
                bool pieces) {
    using sum = sum_of<Type>;
    using word = pack<Type, vector>;
    constexpr int abreast = planes_abreast<sizeof(Type), vector>;
    constexpr int taps = Window::taps;
    constexpr int align = Window::align;

    extern __shared__ __align__(16) unsigned char shared[];
    auto *const line = reinterpret_cast<sum *>(shared + shape.line_at);
    auto *const row_weights
            = reinterpret_cast<weighted_row<sum> *>(shared + shape.weights_at);
    auto *const row_counts
            = reinterpret_cast<int32_t *>(shared + shape.counts_at);
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    auto chunk = static_cast<int>(blockIdx.x);
    const auto blocks = static_cast<int>(gridDim.x);
    const auto planes_of = [&](int number) {
        return number + 1 == shape.chunks ? shape.last_planes
                                          : shape.chunk_planes;
    };
    // Of the chunk that is copied next.
    const Type *from = diff_dst
            + int64_t {chunk} * shape.chunk_planes * shape.plane_elements;
    const int64_t from_step
            = int64_t {blocks} * shape.chunk_planes * shape.plane_elements;
    // What is no whole piece, at the end of the tensor, goes by elements.
    const auto load = [&](int number, int stage) {
        if (number >= shape.chunks) return;
        unsigned char *const to = shared + stage * shape.stage_bytes;
        const int elements = planes_of(number) * shape.plane_elements;
        constexpr int each = 16 / sizeof(Type);
        const int whole = pieces ? elements / each : 0;
        const auto copy = [&](int piece) {
            const int group = __umulhi(
                    static_cast<unsigned>(piece), shape.group_reciprocal);
            copy_async_past_l1(to + piece * 16
                            + group
                                    * static_cast<int>(
                                            shape.group_gap * sizeof(Type)),
                    from + piece * each);
        };
        int piece = thread;
#pragma unroll 1
        for (; piece + 3 * threads < whole; piece += 4 * threads) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                copy(piece + i * threads);
        }
#pragma unroll 1
        for (; piece < whole; piece += threads)
            copy(piece);
#pragma unroll 1
        for (int at = whole * each + thread; at < elements; at += threads) {
            const int group = at / (shape.group_planes * shape.plane_elements);
            reinterpret_cast<Type *>(to)[at + group * shape.group_gap]
                    = from[at];
        }
        from += from_step;
    };
    for (int i = thread; i < shape.line_sums; i += threads)
        line[i] = 0;
    for (int i = thread; i < shape.weights; i += threads)
        row_weights[i] = tables.row_weights[i];
    for (int i = thread; i < shape.src_rows; i += threads)
        row_counts[i] = tables.row_counts[i];

    // Of the rows.
    const int part = thread / shape.segment_threads;
    const int member = thread - part * shape.segment_threads;
    const int slot = member / shape.slot_lanes;
    const int column = (member - slot * shape.slot_lanes) * vector;
    const bool walks = slot < shape.slots && column < shape.dst_columns;
    const int own_plane = walks ? tables.order[slot] : 0;
    const row_segment segment = shape.segments[part];
    const int own_element = own_plane * shape.plane_elements
            + own_plane / shape.group_planes * shape.group_gap
            + segment.dst_row * shape.dst_columns + column;
    sum *const own_line = line
            + (own_plane * shape.src_rows + segment.src_row) * shape.line_pitch
            + shape.line_shift + column;
    // Else the compiler makes these again for every row.
    const auto keep = [](int value) {
        asm volatile("" : "+r"(value));
        return value;
    };
    const int row_elements = keep(shape.dst_columns);
    const int row_line = keep(shape.line_pitch);
    const int plane_line = shape.src_rows * shape.line_pitch;
    const int pass_planes = abreast * shape.slots;

    const auto sum_rows = [&](const Type *element, sum *place,
                                  int other_elements, int other_line) {
        const weighted_row<sum> *weights = row_weights + segment.first_weights;
        const int32_t *count = row_counts + segment.src_row;
        // One source row: `low` has the sums of earlier rows of diff_dst; the
        // other rows are added here.
        const auto sum_row
                = [&](sum(&low)[abreast][vector], sum(&high)[abreast][vector]) {
#pragma unroll
                      for (int k = 0; k < abreast; ++k)
#pragma unroll
                          for (int e = 0; e < vector; ++e)
                              high[k][e] = 0;
                      const auto add = [&]<int rows>() {
                          weighted_row<sum> by[rows];
                          word words[rows][abreast];
#pragma unroll
                          for (int r = 0; r < rows; ++r) {
                              by[r] = weights[r];
#pragma unroll
                              for (int k = 0; k < abreast; ++k)
                                  words[r][k] = *reinterpret_cast<const word *>(
                                          element + k * other_elements);
                              element += row_elements;
                          }
                          weights += rows;
#pragma unroll
                          for (int r = 0; r < rows; ++r) {
                              const bool both = by[r].high_weight != 0;
#pragma unroll
                              for (int k = 0; k < abreast; ++k) {
                                  sum values[vector];
                                  words[r][k].unpack(values);
#pragma unroll
                                  for (int e = 0; e < vector; ++e) {
                                      low[k][e] = add_product(low[k][e],
                                              by[r].low_weight, values[e]);
                                      if (both)
                                          high[k][e] = add_product(high[k][e],
                                                  by[r].high_weight, values[e]);
                                  }
                              }
                          }
                      };
                      int rows = *count++;
                      if (rows == 2) {
                          add.template operator()<2>();
                      } else {
#pragma unroll 1
                          for (; rows > 0; --rows)
                              add.template operator()<1>();
                      }
#pragma unroll
                      for (int k = 0; k < abreast; ++k)
#pragma unroll
                          for (int e = 0; e < vector; ++e)
                              place[k * other_line + e] = low[k][e];
                      place += row_line;
                  };
        sum even[abreast][vector] = {};
        sum odd[abreast][vector];
        int left = segment.rows;
#pragma unroll 1
        while (true) {
            sum_row(even, odd);
            if (--left == 0) break;
            sum_row(odd, even);
            if (--left == 0) break;
        }
    };

    // Of the columns.
    const int row = thread / shape.gather_lanes;
    const int j = thread - row * shape.gather_lanes;
    const bool gathers = row < shape.gather_rows && j < shape.src_columns;
    const int first_output = row * shape.src_columns + j;
    const int next_output = keep(shape.gather_rows * shape.src_columns);
    const int next_window = keep(shape.gather_rows * shape.line_pitch);
    const sum *first_window = line;
    sum by[taps == 0 ? 1 : taps] = {};
    const planes_sums<sum, 4> *far = nullptr;
    if (gathers) {
        first_window += row * shape.line_pitch + tables.windows[j];
        if constexpr (taps > 0) {
#pragma unroll
            for (int k = 0; k < taps; ++k)
                by[k] = tables.weights[j * taps + k];
        } else {
            far = reinterpret_cast<const planes_sums<sum, 4> *>(tables.weights)
                    + j;
        }
    }
    const auto window_sum = [&](const sum *window) {
        sum total = 0;
        if constexpr (taps > 0) {
            sum values[taps];
#pragma unroll
            for (int k = 0; k < taps; k += align) {
                const auto some
                        = *reinterpret_cast<const planes_sums<sum, align> *>(
                                window + k);
#pragma unroll
                for (int i = 0; i < align; ++i)
                    values[k + i] = some.values[i];
            }
#pragma unroll
            for (int k = 0; k < taps; ++k)
                if (Window::sure || by[k] != 0)
                    total = add_product(total, by[k], values[k]);
        } else {
#pragma unroll 1
            for (int four = 0; four < shape.fours; ++four) {
                const auto weights = far[four * shape.src_columns];
                const auto some = reinterpret_cast<const planes_sums<sum, 4> *>(
                        window)[four];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    if (weights.values[k] != 0)
                        total = add_product(
                                total, weights.values[k], some.values[k]);
            }
        }
        return total;
    };
    const auto sum_columns = [&](Type *output, int count) {
        const sum *window = first_window;
        int left = count - first_output;
        output += first_output;
        // Together, so that their reads are on their way at once.
        constexpr int together = taps == 0 ? 1 : taps > 4 ? 2 : 4;
#pragma unroll 1
        for (; left > (together - 1) * next_output;
                left -= together * next_output) {
            sum totals[together];
#pragma unroll
            for (int i = 0; i < together; ++i)
                totals[i] = window_sum(window + i * next_window);
#pragma unroll
            for (int i = 0; i < together; ++i)
                stream_one(output + i * next_output, totals[i]);
            window += together * next_window;
            output += together * next_output;
        }
#pragma unroll 1
        for (; together > 1 && left > 0; left -= next_output) {
            stream_one(output, window_sum(window));
            window += next_window;
            output += next_output;
        }
    };

    wait_and_let_later_work_start();
    load(chunk, 0);
    commit_copies();
    load(chunk + blocks, 1);
    commit_copies();
    Type *to = diff_src + int64_t {chunk} * shape.chunk_planes * shape.outputs;
    const int64_t to_step
            = int64_t {blocks} * shape.chunk_planes * shape.outputs;
    int stage = 0;
#pragma unroll 1
    for (; chunk < shape.chunks; chunk += blocks) {
        const int planes = planes_of(chunk);
        wait_for_copies<1>();
        __syncthreads(); // the stage is there; the line has been read
        if (walks) {
            const Type *element = reinterpret_cast<const Type *>(
                                          shared + stage * shape.stage_bytes)
                    + own_element;
            sum *place = own_line;
#pragma unroll 1
            for (int left = planes; left > 0; left -= pass_planes) {
                // Where not all planes of the pass are there, one by one.
                const bool all = left >= pass_planes;
#pragma unroll 1
                for (int k = 0; k < (all ? 1 : abreast); ++k) {
                    const int plane = k * shape.abreast_planes;
                    if (own_plane + plane < left)
                        sum_rows(element + k * shape.abreast_elements,
                                place + plane * plane_line,
                                all ? shape.abreast_elements : 0,
                                all ? shape.abreast_planes * plane_line : 0);
                }
                element += shape.pass_elements;
                place += pass_planes * plane_line;
            }
        }
        __syncthreads(); // the line is there; the stage has been read
        load(chunk + 2 * blocks, stage);
        commit_copies();
        stage ^= 1;
        if (gathers) sum_columns(to, planes * shape.outputs);
        to += to_step;
    }
    wait_for_copies<0>();
}

} // namespace gradnn::gpu::interpolation::planes
