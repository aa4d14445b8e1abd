// InterpolateBackward along one axis: README.md has the formula and a picture.
//
// A block has a tile of a line and goes through a run of lines. Pieces of 16 bytes
// at multiples of 16 bring what a tile reads to shared memory, as it is, some lines
// ahead. A thread has the same few elements of each line, whose weights stay in
// registers, and adds up their taps.
//
// Every sum runs over ascending taps, from +0, one fma for each product: the same
// bits whatever the tiles and the alignment. Weights beyond an element's own taps
// are 0 and meet what lies there; a sum that comes out infinite or NaN is made
// again of its own taps alone.
#pragma once

#include "gpu/device/async_copy.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/interpolation/rows/cut.hpp"
#include "gpu/interpolation/walk.cuh"

namespace gradnn::gpu::interpolation::rows {

/// `single`: a position is one element.
template <typename Type, int taps, bool single>
__global__ void __launch_bounds__(most_threads, 768 / most_threads)
        rows_kernel(const Type *diff_dst, Type *diff_src,
                const __grid_constant__ work_cut cut, const int32_t *first,
                const sum_of<Type> *weights) {
    using sum = sum_of<Type>;
    constexpr int outputs = outputs_of_thread(taps, sizeof(sum));
    constexpr int piece = 16;
    constexpr auto element = static_cast<int>(sizeof(Type));
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const int inner = single ? 1 : cut.inner;

    const unsigned run = blockIdx.x / static_cast<unsigned>(cut.tiles);
    const auto tile = static_cast<int>(
            blockIdx.x - run * static_cast<unsigned>(cut.tiles));
    const int64_t first_line = run * cut.run_lines;
    const int64_t end_line = min(first_line + cut.run_lines, cut.lines);
    const bool several = cut.line_rows > 1;
    const int line_outputs = cut.line_rows * cut.src_row;
    const int first_output = tile * cut.tile_outputs;
    const int last_output
            = min(first_output + cut.tile_outputs, line_outputs) - 1;
    // What the tile reads of a line.
    const int begin = several ? 0 : first[first_output / inner] * inner;
    const int end = several
            ? cut.line_rows * cut.dst_row
            : min((first[last_output / inner] + taps) * inner, cut.dst_row);

    extern __shared__ uint4 rows_shared[];
    auto *const shared = reinterpret_cast<unsigned char *>(rows_shared);
    // What nothing is copied to is finite, or sums would be made again for nothing.
    for (int i = thread; i < stages * cut.stage_bytes / piece; i += threads)
        rows_shared[i] = uint4 {};

    // A warp has neighbouring outputs, so that a thread's are at constant distances.
    constexpr int lanes = 32;
    const int first_of_warp = thread / lanes * (lanes * outputs);
    const int mine = first_of_warp + thread % lanes;
    int place[outputs]; // of the first tap, bytes
    sum by[outputs][taps];
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
        const int x = min(first_output + mine + o * lanes, last_output);
        const int row = x / cut.src_row;
        const int in_row = x - row * cut.src_row;
        const int position = in_row / inner;
        place[o] = element
                * (row * cut.dst_row + first[position] * inner + in_row
                        - position * inner - begin);
#pragma unroll
        for (int k = 0; k < taps; ++k)
            by[o][k] = weights[int64_t {position} * taps + k];
    }
    wait_for_earlier_work();
    if (cut.lets_start != 0) let_later_work_start();
    __syncthreads();

    const int64_t line_pitch = cut.line_rows * cut.dst_pitch;
    const auto *const tensor
            = reinterpret_cast<const unsigned char *>(diff_dst);
    const unsigned char *const tensor_end = tensor + cut.dst_elements * element;
    const unsigned char *from = tensor
            + (first_line * line_pitch + begin) * element; // next to be loaded
    int64_t to_load = end_line - first_line;
    int64_t rows_left = cut.rows - first_line * cut.line_rows;
    int64_t rows_to_load = rows_left;
    const auto load_next = [&](int slot) {
        if (to_load > 0) {
            const int bytes = element
                    * (several ? static_cast<int>(min(
                                         rows_to_load, int64_t {cut.line_rows}))
                                            * cut.dst_row
                               : end - begin);
            const auto shift = static_cast<int>(
                    reinterpret_cast<uintptr_t>(from) % piece);
            unsigned char *to = shared + slot * cut.stage_bytes;
            for (int at = thread * piece; at < shift + bytes;
                    at += threads * piece) {
                const unsigned char *const source = from - shift + at;
                if (source >= tensor && source + piece <= tensor_end) {
                    copy_async_past_l1(to + at, source);
                } else {
                    // Single elements at the ends of the tensor.
                    for (int i = 0; i < piece; i += element)
                        if (source + i >= tensor && source + i < tensor_end)
                            *reinterpret_cast<Type *>(to + at + i)
                                    = *reinterpret_cast<const Type *>(
                                            source + i);
                }
            }
        }
        commit_copies();
        --to_load;
        rows_to_load -= cut.line_rows;
        from += line_pitch * element;
    };
#pragma unroll
    for (int i = 0; i < stages - 1; ++i)
        load_next(i);

    auto low_bits = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(
            tensor + (first_line * line_pitch + begin) * element));
    Type *to = diff_src + first_line * cut.line_rows * cut.src_pitch
            + first_output + mine;
    int slot = 0;
#pragma unroll 1
    for (int64_t line = first_line; line < end_line; ++line) {
        wait_for_copies<stages - 2>();
        __syncthreads(); // all have read the slot that is filled next
        load_next(slot == 0 ? stages - 1 : slot - 1);
        const int valid = several
                ? static_cast<int>(min(rows_left, int64_t {cut.line_rows}))
                        * cut.src_row
                : last_output + 1 - first_output;
        if (first_of_warp < valid) {
            const unsigned char *const stage
                    = shared + slot * cut.stage_bytes + low_bits % piece;
            sum sums[outputs];
            sum times_zero = 0; // NaN where a sum is not finite
#pragma unroll
            for (int o = 0; o < outputs; ++o) {
                const auto *const window
                        = reinterpret_cast<const Type *>(stage + place[o]);
                sums[o] = 0;
#pragma unroll
                for (int k = 0; k < taps; ++k)
                    sums[o] = add_product(
                            sums[o], by[o][k], widen(window[k * inner]));
                times_zero = add_product(times_zero, sums[o], sum {0});
            }
            if (times_zero != 0) {
#pragma unroll
                for (int o = 0; o < outputs; ++o) {
                    const auto *const window
                            = reinterpret_cast<const Type *>(stage + place[o]);
                    sums[o] = 0;
#pragma unroll
                    for (int k = 0; k < taps; ++k)
                        if (by[o][k] != 0)
                            sums[o] = add_product(sums[o], by[o][k],
                                    widen(window[k * inner]));
                }
            }
#pragma unroll
            for (int o = 0; o < outputs; ++o)
                if (o * lanes < valid - mine)
                    stream_one(to + o * lanes, sums[o]);
        }
        to += cut.line_rows * cut.src_pitch;
        low_bits += static_cast<uint32_t>(line_pitch * element);
        rows_left -= cut.line_rows;
        if (++slot == stages) slot = 0;
    }
    wait_for_copies<0>();
}

} // namespace gradnn::gpu::interpolation::rows
