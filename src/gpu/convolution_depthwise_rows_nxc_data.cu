// Depthwise windows along W alone, NXC, forward and gradient of src.
//
//     written[x,c] = sum over s of window[s,c] * read[x + base + s,c]
//
// in every row, where the window of the gradient of src is turned around.
//
// A thread has some channels of a piece of a row. The window and as many columns
// of read stay in registers; each further column takes the place of the first,
// and makes a column of written, in ascending taps. Read is loaded some columns
// ahead. Neighbouring threads have neighbouring channels. Columns outside are
// zeros, and sums that come out infinite or NaN are taken again from the
// definition.
#include "gpu/convolution_depthwise_rows_nxc.cuh"
#include "gpu/launch.hpp"

namespace gradnn::gpu {

namespace {

/// Elements of a tap of a block's channels in shared memory: the padding spreads
/// the taps of a channel over the banks.
__host__ __device__ constexpr int tap_pitch(int lanes, int vector) {
    return lanes * vector + 2;
}

/// The window as it is met, zeros after the last tap, of a block's channels.
template <typename Type>
__device__ __forceinline__ void stage_window(sum_of<Type> *window, int pitch,
        const Type *weights, const depthwise_shape &shape, int taps,
        int channel, int channels) {
    const int kernel = shape.axes[2].kernel;
    for (int i = static_cast<int>(threadIdx.x); i < taps * channels;
            i += rows_nxc_threads) {
        const int c = i / taps;
        const int tap = i - c * taps;
        sum_of<Type> value = 0;
        if (tap < kernel && channel + c < shape.channels)
            value = widen(weights[(channel + c) * shape.weights_strides[0]
                    + (shape.to_src ? kernel - 1 - tap : tap)
                            * shape.weights_strides[3]]);
        window[tap * pitch + c] = value;
    }
}

template <typename Type, int taps, int vector>
__global__ void __launch_bounds__(
        rows_nxc_threads, rows_nxc_resident(taps, rows_nxc_words<Type, vector>))
        depthwise_rows_nxc_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ depthwise_shape shape,
                const __grid_constant__ depthwise_rows_nxc cut) {
    using sum = sum_of<Type>;
    extern __shared__ uint4 shared[];
    auto *const window = reinterpret_cast<sum *>(shared);
    const depthwise_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % cut.lanes;
    const int slot = thread / cut.lanes;
    const int tile = static_cast<int>(blockIdx.x) % cut.channel_tiles;
    const int part = static_cast<int>(blockIdx.x) / cut.channel_tiles;
    const int channels = cut.lanes * vector;
    const int pitch = tap_pitch(cut.lanes, vector);
    const int channel = tile * channels + lane * vector;
    const int unit = part * cut.slots + slot;
    wait_for_earlier_work();
    let_later_work_start();
    stage_window(
            window, pitch, weights, shape, taps, tile * channels, channels);
    __syncthreads();
    if (channel >= shape.channels || slot >= cut.slots || unit >= cut.units)
        return;

    sum by[taps][vector];
#pragma unroll
    for (int e = 0; e < taps; ++e)
        pack<sum, vector>::load(window + e * pitch + lane * vector)
                .unpack(by[e]);
    const rows_nxc_piece piece(shape, cut, unit);
    const int first = piece.column + shape.base;
    column_stream<Type, vector, rows_nxc_ahead<Type, taps, vector>> columns(
            read + piece.place(shape.read_strides, first) + channel,
            static_cast<int>(shape.read_strides[4]), first, along.read);
    // Column c since the first is in place c % taps.
    sum held[taps][vector];
#pragma unroll
    for (int c = 0; c < taps - 1; ++c)
        columns.take(held[c]);
    columns.start();
    Type *const to = written + piece.place(shape.written_strides, piece.column)
            + channel;
    Type *place = to;
    const auto stride = static_cast<int>(shape.written_strides[4]);
    int at = 0;
    uint64_t again = 0; // where sums are infinite or NaN
    sum of_group = 0; // infinite or NaN if one of them is
    for_each_column<taps>(
            piece.columns,
            [&](int s) {
                columns.take(s, held[(s + taps - 1) % taps]);
                sum total[vector] = {};
#pragma unroll
                for (int e = 0; e < taps; ++e)
#pragma unroll
                    for (int v = 0; v < vector; ++v)
                        total[v] += by[e][v] * held[(s + e) % taps][v];
                if (at + s % rows_nxc_group < piece.columns)
                    pack<Type, vector>::of(total).stream(place);
                place = after(place, stride);
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    of_group += total[v];
            },
            [&] {
                if (!is_finite(of_group))
                    again |= uint64_t {1} << at / rows_nxc_bit_columns;
                of_group = 0;
                at += rows_nxc_group;
            });
#pragma unroll 1
    for (int bit = 0; again != 0; ++bit, again >>= 1) {
        if ((again & 1U) == 0) continue;
        const int begin = bit * rows_nxc_bit_columns;
        const int end = min(begin + rows_nxc_bit_columns, piece.columns);
#pragma unroll 1
        for (int i = begin * vector; i < end * vector; ++i)
            to[i / vector * shape.written_strides[4] + i % vector]
                    = narrow<Type>(exact_element(read, weights, shape,
                            piece.image, channel + i % vector, piece.d, piece.h,
                            piece.column + i / vector));
    }
}

} // namespace

void launch_depthwise_rows_nxc_data(detail::data_type type,
        const depthwise_shape &shape, const depthwise_rows_nxc &cut,
        const depthwise_pointers &pointers, const launch_stream &stream) {
    with_float_type(type, [&]<typename Type>() {
        with_rows_nxc<Type>(cut, [&]<int taps, int vector>() {
            const auto shared_bytes
                    = static_cast<size_t>(taps * tap_pitch(cut.lanes, vector))
                    * sizeof(sum_of<Type>);
            launch_early("convolution.gpu_depthwise (rows, NXC)",
                    depthwise_rows_nxc_data_kernel<Type, taps, vector>,
                    static_cast<unsigned>(cut.parts)
                            * static_cast<unsigned>(cut.channel_tiles),
                    rows_nxc_threads, shared_bytes, stream,
                    static_cast<const Type *>(pointers.read),
                    static_cast<const Type *>(pointers.weights),
                    static_cast<Type *>(pointers.written), shape, cut);
        });
    });
}

} // namespace gradnn::gpu
