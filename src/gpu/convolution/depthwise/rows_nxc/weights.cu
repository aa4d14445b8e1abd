// Depthwise windows along W alone, NXC, gradient of the weights.
//
//     diff_weights[k,c] = sum over n, x of src[n,x-pad+k,c] * dst[n,x,c]
//
// A thread has some channels of pieces of rows, one after the other, and the
// sums of the window's taps (32 at most; wider windows are several blocks') in
// registers. Of a piece it takes sixteen columns of dst at a time, and the
// columns of src that these meet pass by, each multiplied into the sums of all
// taps that it meets. Neighbouring threads have neighbouring channels. In the
// end a block adds up its threads of the same channels, in a fixed order, and
// writes one partial sum a weight, which a second launch adds up
// (convolution/depthwise/parts.cu). Columns outside are zeros; what comes out
// infinite or NaN is taken again there. The order of the sums is the same
// whatever the vectors.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/rows_nxc/device.cuh"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

template <typename Type, int taps, int vector>
__global__ void __launch_bounds__(block_threads, resident_blocks(taps))
        depthwise_rows_nxc_weights_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    using sum = sum_of<Type>;
    constexpr int run = run_length;
    __shared__ sum sums[vector][block_threads];
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % cut.lanes;
    const int slot = thread / cut.lanes;
    int rest = static_cast<int>(blockIdx.x);
    const int tile = take(rest, cut.channel_tiles);
    const int first_tap = take(rest, cut.chunks) * taps;
    const int part = rest;
    const int channel = (tile * cut.lanes + lane) * vector;
    const bool works = channel < shape.channels && slot < cut.slots;
    const auto src_stride = static_cast<int>(shape.read_strides[4]);
    const auto dst_stride = static_cast<int>(shape.written_strides[4]);
    wait_and_let_later_work_start();

    sum total[taps][vector] = {};
    int unit = works ? part * cut.slots + slot : cut.units;
#pragma unroll 1
    for (; unit < cut.units; unit += cut.parts * cut.slots) {
        const row_piece piece(shape, cut, unit);
        int column = piece.column;
        int first = column + shape.base + first_tap;
        const Type *from_src = src + piece.row(shape.read_strides) + channel
                + first * shape.read_strides[4];
        const Type *from_dst = dst + piece.row(shape.written_strides) + channel
                + column * shape.written_strides[4];
#pragma unroll 1
        for (int runs = piece.runs(shape, cut); runs > 0; --runs) {
            column_stream<Type, vector, run + taps - 1> columns(
                    from_src, src_stride, first, along.read);
            pack<Type, vector> loaded[run];
            const Type *place = from_dst;
#pragma unroll
            for (int i = 0; i < run; ++i) {
                loaded[i] = {};
                if (column + i < along.written)
                    loaded[i] = pack<Type, vector>::load(place);
                place = after(place, dst_stride);
            }
            sum by[run][vector];
#pragma unroll
            for (int i = 0; i < run; ++i)
                loaded[i].unpack(by[i]);
            columns.for_each([&](int c, const sum(&values)[vector]) {
#pragma unroll
                for (int i = 0; i < run; ++i)
                    if (c >= i && c - i < taps)
#pragma unroll
                        for (int v = 0; v < vector; ++v)
                            total[c - i][v] += by[i][v] * values[v];
            });
            from_src += run * shape.read_strides[4];
            from_dst += run * shape.written_strides[4];
            first += run;
            column += run;
        }
    }

#pragma unroll
    for (int e = 0; e < taps; ++e) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < vector; ++v)
            sums[v][thread] = total[e][v];
        __syncthreads();
        const int tap = first_tap + e;
        if (!works || slot != 0 || tap >= along.kernel) continue;
#pragma unroll
        for (int v = 0; v < vector; ++v) {
            sum of_block = 0;
#pragma unroll 1
            for (int other = lane; other < cut.slots * cut.lanes;
                    other += cut.lanes)
                of_block += sums[v][other];
            partials[((int64_t {channel} + v) * along.kernel + tap) * cut.parts
                    + part]
                    = of_block;
        }
    }
}

} // namespace

launcher weights_launcher(const launch_facts &facts, const work_cut &cut) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_constants<Type>(cut, [&]<int taps, int vector>() {
            return launch_of_weights(facts,
                    "convolution.gpu_depthwise_rows_nxc (weights)",
                    depthwise_rows_nxc_weights_kernel<Type, taps, vector>,
                    int64_t {cut.parts} * cut.channel_tiles * cut.chunks,
                    block_threads, 0, cut);
        });
    });
}

} // namespace gradnn::gpu::depthwise::rows_nxc
