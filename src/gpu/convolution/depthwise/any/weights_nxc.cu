// Depthwise convolution, gradient of the weights, NXC.
//
//     diff_weights[k,c] = sum over n, y of src[n,y*stride-pad+k*dilation,c]
//                         * dst[n,y,c]
//
// A thread has 4 channels (2 in f64, or 1), one row of the window (8 taps of
// it), and every so-many-th row of dst of its block's part; along a row it holds
// 8 columns of dst and multiplies each column of src that they meet into the
// taps' sums. The threads of a block that differ in the window's row read the
// same rows, through L1. In the end a block adds up its threads that share taps,
// in their order, and writes one partial sum a weight, which a second launch
// adds up (convolution/depthwise/parts.cu). Columns outside are zeros; what
// comes out infinite or NaN is taken again there.
//
// Counted in the machine code, a pixel of 3x3 takes about 30 instructions a
// channel, of 7x7 about 105; at 60 % of an H200's copy rate bf16 has 45 and f32
// has 90.
#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/taps.cuh"

namespace gradnn::gpu::depthwise::any {

namespace {

template <typename Type, int vector, int taps, int step>
__global__ void __launch_bounds__(threads_of_block,
        2) depthwise_weights_nxc_kernel(const Type *src, const Type *dst,
        sum_of<Type> *partials, const __grid_constant__ problem_shape shape,
        const __grid_constant__ block_shape block,
        const __grid_constant__ weights_parts parts) {
    using sum = sum_of<Type>;
    constexpr int span = chunk_columns<taps, step, 1>;
    __shared__ sum sums[vector][threads_of_block];
    const auto thread = static_cast<int>(threadIdx.x);
    auto rest = thread;
    const int lane = take(rest, block.lanes);
    const int job_lane = take(rest, parts.block_jobs);
    const int row_lane = rest;
    rest = static_cast<int>(blockIdx.x);
    const int channel
            = (take(rest, block.channel_tiles) * block.lanes + lane) * vector;
    const int job_blocks
            = (parts.jobs + parts.block_jobs - 1) / parts.block_jobs;
    const int job = take(rest, job_blocks) * parts.block_jobs + job_lane;
    const int part = rest;
    const int chunk = job % shape.chunks;
    const int kh = job / shape.chunks % shape.axes[1].kernel;
    const int kd = job / shape.chunks / shape.axes[1].kernel;
    const bool works = channel < shape.channels && job < parts.jobs
            && row_lane < parts.lanes;

    sum total[taps][vector] = {};
    // Segments of rows of dst: images by depths by rows by segments.
    const int64_t begin = part * parts.units / parts.parts;
    const int64_t end = works ? (part + 1) * parts.units / parts.parts : 0;
    const window_axis &along = shape.axes[2];
    const int64_t src_stride = shape.read_strides[4];
    const int64_t dst_stride = shape.written_strides[4];
    const int first_column = shape.base + chunk * taps;
    for (int64_t unit = begin + row_lane; unit < end; unit += parts.lanes) {
        auto number = static_cast<uint32_t>(unit);
        const int first = take(number, parts.segments) * parts.segment_columns;
        const int last = min(first + parts.segment_columns, along.written);
        const int h = take(number, shape.axes[1].written);
        const int d = take(number, shape.axes[0].written);
        const int64_t image = number;
        const int src_h = h * shape.axes[1].stride - shape.axes[1].pad
                + kh * shape.axes[1].dilation;
        const int src_d = d * shape.axes[0].stride - shape.axes[0].pad
                + kd * shape.axes[0].dilation;
        if (src_h < 0 || src_h >= shape.axes[1].read || src_d < 0
                || src_d >= shape.axes[0].read)
            continue;
        const Type *of_dst = dst + image * shape.written_strides[0]
                + d * shape.written_strides[2] + h * shape.written_strides[3]
                + first * dst_stride + channel;
        const Type *of_src = src + image * shape.read_strides[0]
                + src_d * shape.read_strides[2] + src_h * shape.read_strides[3]
                + (first_column + first * step) * src_stride + channel;
        for (int w = first; w < last; w += run_columns) {
            const Type *column = of_src;
            of_src += src_stride * (run_columns * step);
            sum by[run_columns][vector];
#pragma unroll
            for (int i = 0; i < run_columns; ++i)
                load_column(by[i], of_dst, dst_stride, w + i, along.written);
#pragma unroll
            for (int j = 0; j < span; ++j) {
                sum values[vector];
                load_column(values, column, src_stride,
                        first_column + w * step + j, along.read);
#pragma unroll
                for (int i = 0; i < run_columns; ++i) {
                    const int e = j - i * step;
                    if (e >= 0 && e < taps)
#pragma unroll
                        for (int v = 0; v < vector; ++v)
                            total[e][v] += by[i][v] * values[v];
                }
            }
        }
    }

    // The threads of one channel and job lie `lanes * block_jobs` apart.
    const int distance = block.lanes * parts.block_jobs;
#pragma unroll
    for (int e = 0; e < taps; ++e) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < vector; ++v)
            sums[v][thread] = total[e][v];
        __syncthreads();
        const int kw = tap_at(shape, chunk * taps + e);
        if (!works || row_lane != 0 || kw < 0) continue;
        const int tap = (kd * shape.axes[1].kernel + kh) * along.kernel + kw;
        const int window
                = shape.axes[0].kernel * shape.axes[1].kernel * along.kernel;
#pragma unroll
        for (int v = 0; v < vector; ++v) {
            sum of_block = 0;
#pragma unroll 1
            for (int other = 0; other < parts.lanes; ++other)
                of_block += sums[v][thread + other * distance];
            partials[(int64_t {channel + v} * window + tap) * parts.parts
                    + part]
                    = of_block;
        }
    }
}

template <typename Type, int vector>
launcher weights_launcher(const problem_shape &shape, const blocks_cut &cut) {
    const block_shape &block = cut.block;
    const weights_parts &parts = cut.weights;
    const int64_t blocks = parts.parts * block.channel_tiles
            * ceil_div(parts.jobs, parts.block_jobs);
    return with_window<Type,
            false>(shape, [&]<int taps, int step, int>() -> launcher {
        return [=](const tensor_pointers &at, const launch_stream &stream) {
            launch("convolution.gpu_depthwise_blocks (weights)",
                    depthwise_weights_nxc_kernel<Type, vector, taps, step>,
                    blocks, block.lanes * parts.block_jobs * parts.lanes, 0,
                    stream, at.read<Type>(), at.written<Type>(),
                    at.sums<sum_of<Type>>(), shape, block, parts);
        };
    });
}

} // namespace

launcher weights_launcher(const launch_facts &facts, const blocks_cut &cut) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_chosen(
                [&]<int vector>() {
                    return weights_launcher<Type, vector>(facts.shape, cut);
                },
                one_of < 1, sizeof(Type) == 8 ? 2 : 4 > {cut.block.vector});
    });
}

} // namespace gradnn::gpu::depthwise::any
