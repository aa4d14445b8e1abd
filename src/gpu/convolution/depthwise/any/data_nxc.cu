// Depthwise convolution, forward and gradient of src, NXC.
//
//     written[n,x,c] = sum over k of weights[k,c] * read[n,position(x,k),c]
//
// A first launch writes the weights to the workspace in the type of the sums,
// [window row][column][channel], columns with their gaps. Then a thread
// computes 8 neighbouring columns of 4 channels (2 in f64; 1 where channels or
// strides are not multiples of that): row by row of the window it reads the
// columns that they meet straight from memory, as the threads beside it and
// above it do, through L1; a block is about as wide as high, so that little is
// read by two blocks. Rows outside are skipped, columns outside are zeros, and
// sums that come out NaN are taken again from the definition.
//
// Counted in the machine code, an element of 3x3 takes about 32 instructions, of
// 7x7 about 95; at 60 % of an H200's copy rate bf16 has 45 and f32 has 90. L1
// sees 0.13 wavefronts an element of 3x3, of 0.36. So wide windows are bound by
// multiplications. Each element is one thread's sum in ascending taps: the same
// bits always.
#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/taps.cuh"

namespace gradnn::gpu::depthwise::any {

namespace {

/// gathered[(row * pitch + e) * channels + channel].
template <typename Type>
__global__ void __launch_bounds__(threads_of_block) depthwise_kernel_rows(
        const Type *weights, sum_of<Type> *gathered,
        const __grid_constant__ problem_shape shape, int pitch, int64_t count) {
    const int64_t number
            = blockIdx.x * int64_t {threads_of_block} + threadIdx.x;
    if (number >= count) return;
    const int64_t channel = number % shape.channels;
    const auto place = static_cast<int>(number / shape.channels);
    const int row = place / pitch;
    const int kw = tap_at(shape, place - row * pitch);
    sum_of<Type> value = 0;
    if (kw >= 0)
        value = widen(weights[channel * shape.weights_strides[0]
                + row / shape.axes[1].kernel * shape.weights_strides[1]
                + row % shape.axes[1].kernel * shape.weights_strides[2]
                + kw * shape.weights_strides[3]]);
    gathered[number] = value;
}

template <typename Type, int vector, int taps, int step, int up>
__global__ void __launch_bounds__(threads_of_block, taps == 3 ? 3 : 2)
        depthwise_data_nxc_kernel(const Type *read,
                const sum_of<Type> *__restrict__ gathered, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ block_shape block) {
    using sum = sum_of<Type>;
    constexpr int span = chunk_columns<taps, step, up>;
    auto rest = static_cast<int>(threadIdx.x);
    const int lane = take(rest, block.lanes);
    const int group = take(rest, block.groups);
    const int row = take(rest, block.rows);
    const int depth = rest;
    rest = static_cast<int>(blockIdx.x);
    const int channel
            = (take(rest, block.channel_tiles) * block.lanes + lane) * vector;
    const int w = (take(rest, block.column_tiles) * block.groups + group)
            * run_columns;
    const int first_row
            = take(rest, block.row_tiles) * (block.rows * block.repeats) + row;
    const int d = take(rest, block.depth_tiles) * block.depths + depth;
    const int image = rest;
    if (channel >= shape.channels || w >= shape.axes[2].written
            || d >= shape.axes[0].written || depth >= block.depths)
        return;

    const axis_taps of_d = taps_of(shape.axes[0], shape.to_src, d);
    const int first_column = w * step / up + shape.base;
    const auto channels = static_cast<int>(shape.channels);
    const int kernel_pitch = shape.chunks * taps;
    const int64_t column_stride = shape.read_strides[4];
    const Type *const from_image = read + image * shape.read_strides[0]
            + channel + first_column * column_stride;
    for (int repeat = 0; repeat < block.repeats; ++repeat) {
        const int h = first_row + repeat * block.rows;
        if (h >= shape.axes[1].written) return;
        const axis_taps of_h = taps_of(shape.axes[1], shape.to_src, h);
        sum total[run_columns][vector] = {};
        int at_d = of_d.from;
        for (int kd = of_d.first; kd < of_d.end; kd += of_d.step) {
            const Type *from = from_image + at_d * shape.read_strides[2]
                    + of_h.from * shape.read_strides[3];
            const sum *with = gathered + channel
                    + static_cast<int64_t>(
                              (kd * shape.axes[1].kernel + of_h.first)
                              * kernel_pitch)
                            * channels;
            for (int kh = of_h.first; kh < of_h.end; kh += of_h.step) {
                const int chunks = taps == 8 ? shape.chunks : 1;
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    sum by[taps][vector];
#pragma unroll
                    for (int e = 0; e < taps; ++e)
                        pack<sum, vector>::load_constant(
                                with + (chunk * taps + e) * channels)
                                .unpack(by[e]);
                    const int place = first_column + chunk * (taps / up);
                    const Type *column
                            = from + column_stride * (chunk * (taps / up));
#pragma unroll
                    for (int j = 0; j < span; ++j) {
                        sum values[vector];
                        load_column(values, column, column_stride, place + j,
                                shape.axes[2].read);
#pragma unroll
                        for (int i = 0; i < run_columns; ++i) {
                            const int e = j * up - i * step;
                            if (e >= 0 && e < taps)
#pragma unroll
                                for (int v = 0; v < vector; ++v)
                                    total[i][v] += by[e][v] * values[v];
                        }
                    }
                }
                from += of_h.move * shape.read_strides[3];
                with += int64_t {of_h.step} * kernel_pitch * channels;
            }
            at_d += of_d.move;
        }
        const int left = shape.axes[2].written - w;
        sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
        for (int i = 0; i < run_columns; ++i)
#pragma unroll
            for (int v = 0; v < vector; ++v)
                of_all += total[i][v];
        Type *to = written + image * shape.written_strides[0]
                + d * shape.written_strides[2] + h * shape.written_strides[3]
                + w * shape.written_strides[4] + channel;
#pragma unroll
        for (int i = 0; i < run_columns; ++i) {
            if (i < left) pack<Type, vector>::of(total[i]).store(to);
            to += shape.written_strides[4];
        }
        if (is_finite(of_all)) continue;
        to -= run_columns * shape.written_strides[4];
#pragma unroll 1
        for (int i = 0; i < min(left, run_columns) * vector; ++i)
            take_again(to[i / vector * shape.written_strides[4] + i % vector],
                    read, weights, shape, image, channel + i % vector, d, h,
                    w + i / vector);
    }
}

template <typename Type, int vector>
launcher data_launcher(const problem_shape &shape, const block_shape &block) {
    const int pitch = shape.chunks * shape.taps;
    const int64_t count = shape.channels * pitch * shape.axes[0].kernel
            * shape.axes[1].kernel;
    const int64_t blocks = shape.images * block.depth_tiles * block.row_tiles
            * block.column_tiles * block.channel_tiles;
    return with_window<Type,
            true>(shape, [&]<int taps, int step, int up>() -> launcher {
        return [=](const tensor_pointers &at, const launch_stream &stream) {
            auto *const gathered = at.sums<sum_of<Type>>();
            launch("convolution.gpu_depthwise_blocks (rows of taps)",
                    depthwise_kernel_rows<Type>,
                    ceil_div(count, threads_of_block), threads_of_block, 0,
                    stream, at.weights<Type>(), gathered, shape, pitch, count);
            launch("convolution.gpu_depthwise_blocks",
                    depthwise_data_nxc_kernel<Type, vector, taps, step, up>,
                    blocks,
                    block.lanes * block.groups * block.rows * block.depths, 0,
                    stream, at.read<Type>(), gathered, at.weights<Type>(),
                    at.written<Type>(), shape, block);
        };
    });
}

} // namespace

launcher data_launcher(const launch_facts &facts, const blocks_cut &cut) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_chosen(
                [&]<int vector>() {
                    return data_launcher<Type, vector>(facts.shape, cut.block);
                },
                one_of < 1, sizeof(Type) == 8 ? 2 : 4 > {cut.block.vector});
    });
}

} // namespace gradnn::gpu::depthwise::any
