// Depthwise windows along W alone, NXC, forward and gradient of src.
//
//     written[x,c] = sum over s of window[s,c] * read[x + base + s,c]
//
// in every row, where the window of the gradient of src is turned around.
//
// A thread has some channels of a piece of a row, of which it computes sixteen
// columns at a time: the window's taps (32 at most at a time) and the sums stay
// in registers, and the columns of read that the sixteen meet pass by, each
// multiplied into all sums that it meets, in the order of read's columns.
// Neighbouring threads have neighbouring channels; what sixteen columns read
// again of those before them they mostly find in L1. Columns outside are zeros,
// and sums that come out NaN are taken again from the definition.
//
// An element of 31 taps takes 52 instructions in bf16 (ncu), 31 of them products;
// the kernel that takes eight columns and eight taps at a time
// (convolution/depthwise/any/data_nxc.cu) loads twice as much for each.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/rows_nxc/device.cuh"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

/// Elements of a tap of a block's channels in shared memory: the padding spreads
/// the taps of a channel over the banks.
__host__ __device__ constexpr int tap_pitch(int lanes, int vector) {
    return lanes * vector + 2;
}

/// The window as it is met, zeros after the last tap, of a block's channels.
template <typename Type>
__device__ __forceinline__ void stage_window(sum_of<Type> *window, int pitch,
        const Type *weights, const problem_shape &shape, int taps, int channel,
        int channels) {
    const int kernel = shape.axes[2].kernel;
    for (int i = static_cast<int>(threadIdx.x); i < taps * channels;
            i += block_threads) {
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
__global__ void __launch_bounds__(block_threads, resident_blocks(taps))
        depthwise_rows_nxc_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut cut) {
    using sum = sum_of<Type>;
    constexpr int run = run_length;
    extern __shared__ uint4 shared[];
    auto *const window = reinterpret_cast<sum *>(shared);
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % cut.lanes;
    const int slot = thread / cut.lanes;
    const int tile = static_cast<int>(blockIdx.x) % cut.channel_tiles;
    const int part = static_cast<int>(blockIdx.x) / cut.channel_tiles;
    const int channels = cut.lanes * vector;
    const int pitch = tap_pitch(cut.lanes, vector);
    const int channel = tile * channels + lane * vector;
    const int unit = part * cut.slots + slot;
    wait_and_let_later_work_start();
    stage_window(window, pitch, weights, shape, cut.chunks * taps,
            tile * channels, channels);
    __syncthreads();
    if (channel >= shape.channels || slot >= cut.slots || unit >= cut.units)
        return;

    const row_piece piece(shape, cut, unit);
    const auto read_stride = static_cast<int>(shape.read_strides[4]);
    const auto written_stride = static_cast<int>(shape.written_strides[4]);
    int first = piece.column + shape.base;
    int left = along.written - piece.column;
    const Type *from = read + piece.row(shape.read_strides) + channel
            + first * shape.read_strides[4];
    Type *const to = written + piece.row(shape.written_strides) + channel
            + piece.column * shape.written_strides[4];
    Type *place = to;
    const int runs = piece.runs(shape, cut);
    uint64_t again = 0; // runs with sums that are infinite or NaN
    sum by[taps][vector];
#pragma unroll 1
    for (int at = 0; at < runs; ++at) {
        sum total[run][vector] = {};
#pragma unroll 1
        for (int chunk = 0; chunk < cut.chunks; ++chunk) {
            if (at == 0 || cut.chunks > 1)
#pragma unroll
                for (int e = 0; e < taps; ++e)
                    pack<sum, vector>::load(
                            window + (chunk * taps + e) * pitch + lane * vector)
                            .unpack(by[e]);
            column_stream<Type, vector, run + taps - 1> columns(
                    from + chunk * taps * shape.read_strides[4], read_stride,
                    first + chunk * taps, along.read);
            columns.for_each([&](int c, const sum(&values)[vector]) {
#pragma unroll
                for (int i = 0; i < run; ++i)
                    if (c >= i && c - i < taps)
#pragma unroll
                        for (int v = 0; v < vector; ++v)
                            total[i][v] += by[c - i][v] * values[v];
            });
        }
        sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
        for (int i = 0; i < run; ++i) {
#pragma unroll
            for (int v = 0; v < vector; ++v)
                of_all += total[i][v];
            if (i < left) pack<Type, vector>::of(total[i]).stream(place);
            place = after(place, written_stride);
        }
        if (!is_finite(of_all)) again |= uint64_t {1} << at;
        from += run * shape.read_strides[4];
        first += run;
        left -= run;
    }
#pragma unroll 1
    for (int at = 0; again != 0; ++at, again >>= 1) {
        if ((again & 1U) == 0) continue;
        const int begin = at * run;
        const int end = min(begin + run, along.written - piece.column);
#pragma unroll 1
        for (int i = begin * vector; i < end * vector; ++i)
            take_again(to[i / vector * shape.written_strides[4] + i % vector],
                    read, weights, shape, piece.image, channel + i % vector,
                    piece.d, piece.h, piece.column + i / vector);
    }
}

} // namespace

launcher data_launcher(const launch_facts &facts, const work_cut &cut) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_constants<Type>(cut, [&]<int taps, int vector>() {
            const auto shared_bytes = static_cast<size_t>(cut.chunks * taps
                                              * tap_pitch(cut.lanes, vector))
                    * sizeof(sum_of<Type>);
            return launch_of_data(facts, "convolution.gpu_depthwise_rows_nxc",
                    depthwise_rows_nxc_data_kernel<Type, taps, vector>,
                    int64_t {cut.parts} * cut.channel_tiles, block_threads,
                    shared_bytes, cut);
        });
    });
}

} // namespace gradnn::gpu::depthwise::rows_nxc
