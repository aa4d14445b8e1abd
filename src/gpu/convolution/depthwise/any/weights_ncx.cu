// Depthwise convolution, gradient of the weights, NCX.
//
//     diff_weights[c,k] = sum over n, y of src[n,c,y*stride-pad+k*dilation]
//                         * dst[n,c,y]
//
// A block has one channel, some rows of the window (all of 3x3, 5x5 and 7x7)
// and 8 columns of them at most, and a part of the tiles of dst: it stages the
// rows of src that a tile meets in shared memory, in the type of the sums, and
// goes on to the next. A thread takes 8 neighbouring columns of dst at a time,
// straight from memory, and multiplies them with what they meet into the sums of
// the block's taps. In the end the block adds these up over its threads and
// writes one partial sum a weight; a second launch adds the parts
// (convolution/depthwise/parts.cu). Rows outside are skipped, columns outside
// are zeros; what comes out infinite or NaN is taken again there.
//
// Counted in the machine code, a pixel of 3x3 takes about 40 instructions, 9 of
// them for sums, of 7x7 about 95; at 60 % of an H200's copy rate bf16 has 45 and
// f32 has 90.
#include "gpu/convolution/depthwise/any/ncx.cuh"
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/device/warp.cuh"

namespace gradnn::gpu::depthwise::any {

namespace {

template <typename Type, int vector>
__device__ __forceinline__ void load_dst(sum_of<Type> (&values)[run_columns],
        const Type *from, int left, int64_t stride) {
#pragma unroll
    for (int i = 0; i < run_columns; i += vector) {
        pack<Type, vector> packed {};
        if (i < left)
            packed = pack<Type, vector>::load_constant(from + i * stride);
        sum_of<Type> unpacked[vector];
        packed.unpack(unpacked);
#pragma unroll
        for (int j = 0; j < vector; ++j)
            values[i + j] = unpacked[j];
    }
}

template <typename Type, int window_rows, int taps, int step>
__global__ void __launch_bounds__(threads_of_block)
        depthwise_weights_ncx_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape,
                const __grid_constant__ tile_shape tile,
                const __grid_constant__ weights_parts parts) {
    using sum = sum_of<Type>;
    constexpr int span = chunk_columns<taps, step, 1>;
    constexpr int each = elements_of_16_bytes<sum>;
    extern __shared__ uint4 shared[];
    __shared__ sum warp_sums[window_rows * taps][threads_of_block / 32];
    const int staged = tile.staged_rows();
    auto *const rows = reinterpret_cast<sum *>(shared) + row_slack;
    auto *const table
            = reinterpret_cast<const Type **>(rows + staged * tile.pitch);
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    const auto channels = static_cast<int>(shape.channels);
    auto rest = static_cast<int>(blockIdx.x);
    const int channel = take(rest, channels);
    const int job = take(rest, parts.jobs);
    const int part = rest;
    const int chunk = job % shape.chunks;
    const auto &[deep, down, along] = shape.axes;
    const int job_rows = (down.kernel + window_rows - 1) / window_rows;
    const int first_kh = job / shape.chunks % job_rows * window_rows;
    const int kd = job / shape.chunks / job_rows;
    src += channel * shape.read_strides[1];
    dst += channel * shape.written_strides[1];

    sum total[window_rows][taps] = {};
    const int64_t begin = part * parts.units / parts.parts;
    const int64_t end = (part + 1) * parts.units / parts.parts;
    for (int64_t unit = begin; unit < end; ++unit) {
        auto number = static_cast<int>(unit);
        const int first_column
                = take(number, tile.column_tiles) * tile.groups * run_columns;
        const int first_row = take(number, tile.row_tiles) * tile.rows;
        const int first_plane = number * tile.planes;
        const int planes = min(tile.planes,
                static_cast<int>(shape.images) * deep.written - first_plane);
        const int src_row
                = first_row * down.stride - down.pad + first_kh * down.dilation;
        const int src_column = first_column * step + shape.base + chunk * taps;
        __syncthreads();
        for (int row = thread; row < staged; row += threads) {
            const int plane
                    = divide(static_cast<uint32_t>(row), tile.by_read_rows);
            const int image = (first_plane + plane) / deep.written;
            const int d
                    = (first_plane + plane - image * deep.written) * deep.stride
                    - deep.pad + kd * deep.dilation;
            const int h = src_row + row - plane * tile.read_rows;
            const Type *at = src;
            if (plane < planes && h >= 0 && h < down.read && d >= 0
                    && d < deep.read)
                at += image * shape.read_strides[0] + d * shape.read_strides[2]
                        + h * shape.read_strides[3];
            table[row] = at;
        }
        // Tiles that are as wide as src all have the same columns outside.
        if (unit == begin || tile.column_tiles > 1) {
            const int words = (row_slack + staged * tile.pitch) / each;
            for (int i = thread; i < words; i += threads)
                shared[i] = uint4 {};
        }
        __syncthreads();
        stage_rows(table, rows, tile, src_column, along.read,
                shape.read_strides[4]);
        __syncthreads();

        for (int item = thread; item < tile.items(); item += threads) {
            const tile_position at = position_of(item, tile);
            const int w = first_column + at.group * run_columns;
            if (at.plane >= planes || w >= along.written) continue;
            int image = first_plane + at.plane;
            int d = 0;
            if (deep.written > 1) {
                image /= deep.written;
                d = first_plane + at.plane - image * deep.written;
            }
            const int src_d = d * deep.stride - deep.pad + kd * deep.dilation;
            if (src_d < 0 || src_d >= deep.read) continue;
            const Type *const of_depth = dst + image * shape.written_strides[0]
                    + d * shape.written_strides[2]
                    + w * shape.written_strides[4];
            const int left = along.written - w;
            for (int repeat = 0; repeat < tile.repeats; ++repeat) {
                const int row = at.row + repeat * tile.paired();
                const int h = first_row + row;
                if (row >= tile.rows || h >= down.written) break;
                const Type *from = of_depth + h * shape.written_strides[3];
                sum by[run_columns];
                constexpr int widest = 16 / sizeof(Type);
                if (tile.dense_store == widest)
                    load_dst<Type, widest>(by, from, left, 1);
                else if (widest > 2 && tile.dense_store == 2)
                    load_dst<Type, 2>(by, from, left, 1);
                else
                    load_dst<Type, 1>(by, from, left, shape.written_strides[4]);
                const sum *window = rows
                        + (at.plane * tile.read_rows + row * down.stride)
                                * tile.pitch
                        + at.group * (run_columns * step);
                int src_h = src_row + row * down.stride;
#pragma unroll
                for (int k = 0; k < window_rows; ++k) {
                    if (first_kh + k < down.kernel && src_h >= 0
                            && src_h < down.read) {
                        sum values[round_up(span, each)];
                        load_values<span>(values, window);
#pragma unroll
                        for (int e = 0; e < taps; ++e)
#pragma unroll
                            for (int i = 0; i < run_columns; ++i)
                                total[k][e] += by[i] * values[i * step + e];
                    }
                    src_h += down.dilation;
                    window += down.dilation * tile.pitch;
                }
            }
        }
    }

#pragma unroll
    for (int k = 0; k < window_rows; ++k)
#pragma unroll
        for (int e = 0; e < taps; ++e) {
            const sum of_warp = sum_of_warp(total[k][e]);
            if (thread % 32 == 0)
                warp_sums[k * taps + e][thread / 32] = of_warp;
        }
    __syncthreads();
    if (thread >= window_rows * taps) return;
    const int kh = first_kh + thread / taps;
    const int kw = tap_at(shape, chunk * taps + thread % taps);
    if (kh >= down.kernel || kw < 0) return;
    sum of_block = 0;
    for (int warp = 0; warp < threads / 32; ++warp)
        of_block += warp_sums[thread][warp];
    const int64_t weight
            = ((int64_t {channel} * deep.kernel + kd) * down.kernel + kh)
                    * along.kernel
            + kw;
    partials[weight * parts.parts + part] = of_block;
}

} // namespace

launcher weights_launcher(const launch_facts &facts, const tiles_cut &cut) {
    const problem_shape &shape = facts.shape;
    const tile_shape &tile = cut.tile;
    const weights_parts &parts = cut.weights;
    const int64_t blocks = parts.parts * parts.jobs * shape.channels;
    return with_float_type(facts.type, [&]<typename Type>() {
        const size_t shared_bytes = shared_bytes_of(tile, sizeof(sum_of<Type>));
        return with_window<Type, false>(
                shape, [&]<int taps, int step, int>() -> launcher {
                    return [=](const tensor_pointers &at,
                                   const launch_stream &stream) {
                        launch("convolution.gpu_depthwise_tiles (weights)",
                                depthwise_weights_ncx_kernel<Type,
                                        window_rows_of(taps), taps, step>,
                                blocks, tile.threads, shared_bytes, stream,
                                at.read<Type>(), at.written<Type>(),
                                at.sums<sum_of<Type>>(), shape, tile, parts);
                    };
                });
    });
}

} // namespace gradnn::gpu::depthwise::any
