// Depthwise windows along W alone, NXC, gradient of the weights.
//
//     diff_weights[k,c] = sum over n, x of src[n,x-pad+k,c] * dst[n,x,c]
//
// A thread has some channels of pieces of rows, one after the other, and the sums
// of the window's taps in registers, with as many columns of src. Of a piece it
// takes a column of src, in place of the first that it has, and a column of dst,
// which it multiplies with all that it has of src into all sums. Both are loaded
// some columns ahead. Neighbouring threads have neighbouring channels. In the end
// a block adds up its threads of the same channels, in a fixed order, and writes
// one partial sum a weight, which a second launch adds up
// (convolution_depthwise_parts.cu). Columns outside are zeros; what comes out
// infinite or NaN is taken again there. The order of the sums is the same
// whatever the vectors.
#include "gpu/convolution_depthwise_rows_nxc.cuh"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

template <typename Type, int taps, int vector>
__global__ void __launch_bounds__(
        rows_nxc_threads, rows_nxc_resident(taps, rows_nxc_words<Type, vector>))
        depthwise_rows_nxc_weights_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ depthwise_shape shape,
                const __grid_constant__ depthwise_rows_nxc cut) {
    using sum = sum_of<Type>;
    using stream
            = column_stream<Type, vector, rows_nxc_ahead<Type, taps, vector>>;
    __shared__ sum sums[vector][rows_nxc_threads];
    const depthwise_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % cut.lanes;
    const int slot = thread / cut.lanes;
    const int tile = static_cast<int>(blockIdx.x) % cut.channel_tiles;
    const int part = static_cast<int>(blockIdx.x) / cut.channel_tiles;
    const int channel = (tile * cut.lanes + lane) * vector;
    const bool works = channel < shape.channels && slot < cut.slots;
    wait_for_earlier_work();
    let_later_work_start();

    sum total[taps][vector] = {};
    int unit = works ? part * cut.slots + slot : cut.units;
#pragma unroll 1
    for (; unit < cut.units; unit += cut.parts * cut.slots) {
        const rows_nxc_piece piece(shape, cut, unit);
        const int first = piece.column + shape.base;
        stream of_src(src + piece.place(shape.read_strides, first) + channel,
                static_cast<int>(shape.read_strides[4]), first, along.read);
        stream of_dst(dst + piece.place(shape.written_strides, piece.column)
                        + channel,
                static_cast<int>(shape.written_strides[4]), 0, piece.columns);
        // Column c since the first is in place c % taps.
        sum held[taps][vector];
#pragma unroll
        for (int c = 0; c < taps - 1; ++c)
            of_src.take(held[c]);
        of_src.start();
        of_dst.start();
        for_each_column<taps>(
                piece.columns,
                [&](int s) {
                    of_src.take(s, held[(s + taps - 1) % taps]);
                    sum by[vector];
                    of_dst.take(s, by);
#pragma unroll
                    for (int e = 0; e < taps; ++e)
#pragma unroll
                        for (int v = 0; v < vector; ++v)
                            total[e][v] += by[v] * held[(s + e) % taps][v];
                },
                [] {});
    }

#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
        if (tap >= along.kernel) break;
        __syncthreads();
#pragma unroll
        for (int v = 0; v < vector; ++v)
            sums[v][thread] = total[tap][v];
        __syncthreads();
        if (!works || slot != 0) continue;
#pragma unroll
        for (int v = 0; v < vector; ++v) {
            sum of_block = 0;
#pragma unroll 1
            for (int other = lane; other < cut.slots * cut.lanes;
                    other += cut.lanes)
                of_block += sums[v][other];
            partials[((int64_t {channel} + v) * along.kernel + tap) * cut.parts
                    + part] = of_block;
        }
    }
}

} // namespace

void launch_depthwise_rows_nxc_weights(detail::data_type type,
        const depthwise_shape &shape, const depthwise_rows_nxc &cut,
        const depthwise_pointers &pointers, const launch_stream &stream) {
    with_float_type(type, [&]<typename Type>() {
        with_rows_nxc<Type>(cut, [&]<int taps, int vector>() {
            launch_early("convolution.gpu_depthwise (rows, NXC, weights)",
                    depthwise_rows_nxc_weights_kernel<Type, taps, vector>,
                    static_cast<unsigned>(cut.parts * cut.channel_tiles),
                    rows_nxc_threads, 0, stream,
                    static_cast<const Type *>(pointers.read),
                    static_cast<const Type *>(pointers.written),
                    static_cast<sum_of<Type> *>(pointers.workspace), shape,
                    cut);
        });
    });
}

} // namespace gradnn::gpu
