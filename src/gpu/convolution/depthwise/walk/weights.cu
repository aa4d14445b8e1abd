// Depthwise convolution, gradient of the weights, windows of 3x3, 5x5 and 7x7
// with strides and dilations of 1, NCX (not of f64) and NXC.
//
//     diff_weights[k,c] = sum over n, y of src[n,y-pad+k,c] * dst[n,y,c]
//
// A thread has all taps of some channels (of NCX one), and of dst strips of
// neighbouring columns and rows, one after the other. It walks down a strip, a
// row of src and one of dst at a time, one row ahead: it keeps the last rows of
// dst, as many as the window has, and multiplies them with the row of src into
// the taps' sums. In the end a block adds up its threads of the same channels,
// in a fixed order, and writes one partial sum a weight, which a second launch
// adds up (convolution/depthwise/parts.cu). Columns and rows outside are zeros;
// what comes out infinite or NaN is taken again there. The order of the sums is
// the same whatever the vectors.
//
// Counted in the machine code, a pixel of 3x3 takes 19 instructions a channel in
// bf16 NXC, of which 9 are products; convolution/depthwise/any/weights_nxc.cu, which
// reads its rows for every tap row, takes 34 (measured).
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/walk/device.cuh"

namespace gradnn::gpu::depthwise::walk {

namespace {

/// Blocks of a multiprocessor: what registers leave.
constexpr int weights_blocks(int size, int vector, int64_t element_bytes) {
    if (element_bytes == 8) return f64_blocks(size, true);
    return size < 7 && (vector == 1 || (size == 3 && element_bytes == 2)) ? 4
                                                                          : 3;
}

template <typename Type, int size, int vector, int run, int dense>
__global__ void __launch_bounds__(
        block_threads, weights_blocks(size, vector, sizeof(Type)))
        depthwise_walk_weights_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut walk) {
    using sum = sum_of<Type>;
    constexpr int span = run + size - 1;
    using src_row = row_columns<Type, run, span, vector, dense>;
    using dst_row = row_columns<Type, run, run, vector, dense>;
    __shared__ sum sums[vector][block_threads];
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % walk.lanes;
    const int slot = thread / walk.lanes;
    const auto channel_tile = static_cast<int>(blockIdx.x % walk.channel_tiles);
    const auto part = static_cast<int>(blockIdx.x / walk.channel_tiles);
    const int channel = (channel_tile * walk.lanes + lane) * vector;
    const bool works = channel < shape.channels && slot < walk.slots;
    const auto src_stride = static_cast<int>(shape.read_strides[4]);
    const auto dst_stride = static_cast<int>(shape.written_strides[4]);
    wait_for_earlier_work();
    let_later_work_start();

    sum total[size][size][vector] = {};
    const uint32_t step_units = walk.parts * static_cast<uint32_t>(walk.slots);
    uint32_t unit = works ? static_cast<uint32_t>(part * walk.slots + slot)
                          : walk.units;
#pragma unroll 1
    for (; unit < walk.units; unit += step_units) {
        uint32_t rest = unit;
        const auto w = static_cast<int>(rest % walk.groups) * run;
        rest /= walk.groups;
        const auto first
                = static_cast<int>(rest % walk.strips) * walk.strip_rows;
        rest /= walk.strips;
        const auto d = static_cast<int>(rest % shape.axes[0].written);
        const auto image = static_cast<int64_t>(rest / shape.axes[0].written);
        const int rows = min(walk.strip_rows, down.written - first);

        const int src_column = w + shape.base;
        const uint32_t src_inside
                = columns_inside<span>(src_column, along.read);
        const uint32_t dst_inside = columns_inside<run>(w, along.written);
        int src_h = first - down.pad;
        int dst_left = rows;
        const Type *from_src = src + image * shape.read_strides[0]
                + channel * shape.read_strides[1] + d * shape.read_strides[2]
                + src_h * shape.read_strides[3]
                + src_column * shape.read_strides[4];
        const Type *from_dst = dst + image * shape.written_strides[0]
                + channel * shape.written_strides[1]
                + d * shape.written_strides[2]
                + first * shape.written_strides[3]
                + w * shape.written_strides[4];
        src_row src_loaded;
        dst_row dst_loaded;
        const auto load_rows = [&] {
            const bool inside = static_cast<unsigned>(src_h)
                    < static_cast<unsigned>(down.read);
            src_loaded.load(from_src, src_stride, inside ? src_inside : 0);
            dst_loaded.load(
                    from_dst, dst_stride, dst_left > 0 ? dst_inside : 0);
            ++src_h;
            --dst_left;
            from_src += shape.read_strides[3];
            from_dst += shape.written_strides[3];
        };
        // Row y of dst is in place y % size.
        sum kept[size][run][vector] = {};
        int steps = rows + size - 1;
        load_rows();
#pragma unroll 1
        while (steps > 0) {
#pragma unroll
            for (int at = 0; at < size; ++at) {
                sum values[span][vector];
                src_loaded.unpack(values);
                dst_loaded.unpack(kept[at]);
                load_rows();
#pragma unroll
                for (int kh = 0; kh < size; ++kh)
#pragma unroll
                    for (int e = 0; e < size; ++e)
#pragma unroll
                        for (int i = 0; i < run; ++i)
#pragma unroll
                            for (int v = 0; v < vector; ++v)
                                total[kh][e][v]
                                        += kept[(at + size - kh) % size][i][v]
                                        * values[i + e][v];
                if (--steps == 0) break;
            }
        }
    }

    // Of NCX all threads have one channel: warps first.
    const bool by_warps = walk.lanes == 1;
#pragma unroll
    for (int kh = 0; kh < size; ++kh)
#pragma unroll
        for (int e = 0; e < size; ++e) {
            __syncthreads();
#pragma unroll
            for (int v = 0; v < vector; ++v) {
                sum each = total[kh][e][v];
                if (by_warps)
#pragma unroll
                    for (int distance = 16; distance > 0; distance /= 2)
                        each += __shfl_down_sync(0xffffffffU, each, distance);
                sums[v][thread] = each;
            }
            __syncthreads();
            if (!works || slot != 0) continue;
            const int apart = by_warps ? 32 : walk.lanes;
#pragma unroll
            for (int v = 0; v < vector; ++v) {
                sum of_block = 0;
#pragma unroll 1
                for (int other = thread; other < walk.slots * walk.lanes;
                        other += apart)
                    of_block += sums[v][other];
                partials[((int64_t {channel} + v) * (size * size) + kh * size
                                 + e)
                                * walk.parts
                        + part]
                        = of_block;
            }
        }
}

} // namespace

void launch_weights(const execution &on, const work_cut &walk) {
    with_float_type(on.type, [&]<typename Type>() {
        with_constants<Type, true>(on.shape, walk,
                [&]<int size, int, int vector, int run, int dense>() {
                    launch_early("convolution.gpu_depthwise_walk (weights)",
                            depthwise_walk_weights_kernel<Type, size, vector,
                                    run, dense>,
                            walk.parts * walk.channel_tiles, block_threads, 0,
                            on.stream, on.read<Type>(), on.written<Type>(),
                            on.sums<sum_of<Type>>(), on.shape, walk);
                });
    });
}

} // namespace gradnn::gpu::depthwise::walk
