// Depthwise convolution, gradient of the weights, windows of 3x3x3 with strides
// and dilations of 1, NCX and NXC.
//
//     diff_weights[k,c] = sum over n, y of src[n,y-pad+k,c] * dst[n,y,c]
//
// A thread has all taps of one channel (of 16 bits in NXC two), and of dst strips
// of four neighbouring columns, two neighbouring depths and some rows, one strip
// after the other. It walks down a strip as the threads of
// convolution/depthwise/walk/weights.cu do: in a step it takes a row of both
// slices of dst and of the four of src that these meet, loaded a step ahead,
// keeps the last three rows of dst and multiplies them with those of src into
// the taps' sums. In the end a block adds up its threads of the same channels,
// in a fixed order, and writes one partial sum a weight, which a second launch
// adds up (convolution/depthwise/parts.cu). What is outside is zeros; what comes
// out infinite or NaN is taken again there. The order of the sums is the same
// whatever the vectors.
//
// Counted in the machine code, an element of dst takes 44 instructions in bf16,
// in f32 42 (NCX) or 55, of which 27 are products.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/volume/device.cuh"

namespace gradnn::gpu::depthwise::volume {

namespace {

/// Blocks of a multiprocessor: what registers leave.
constexpr int weights_blocks(int vector, int64_t sum_bytes) {
    return sum_bytes == 8 || vector == 2 ? 2 : 3;
}

/// Taps of a window's slice, which a block adds up together.
constexpr int slice_taps = window_size * window_size;

template <typename Type, int vector, int together>
__global__ void __launch_bounds__(
        walk::block_threads, weights_blocks(vector, sizeof(sum_of<Type>)))
        depthwise_volume_weights_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape,
                const __grid_constant__ walk::work_cut walk) {
    using sum = sum_of<Type>;
    constexpr int size = window_size;
    constexpr int run = strip_columns;
    constexpr int depths = strip_depths;
    constexpr int slices = depths + size - 1;
    constexpr int span = run + size - 1;
    constexpr int dense = together == 1 ? 0 : together;
    constexpr bool loads_first = loads_row_first<Type, together>;
    using src_row = walk::row_columns<Type, run, span, vector, dense>;
    using dst_row = walk::row_columns<Type, run, run, vector, dense>;
    __shared__ sum sums[slice_taps][vector][walk::block_threads];
    const window_axis &deep = shape.axes[0];
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % walk.lanes;
    const int slot = thread / walk.lanes;
    const auto channel_tile = static_cast<int>(blockIdx.x % walk.channel_tiles);
    const auto part = static_cast<int>(blockIdx.x / walk.channel_tiles);
    const int first_channel = channel_tile * walk.lanes * vector;
    const int channel = first_channel + lane * vector;
    const bool works = channel < shape.channels && slot < walk.slots;
    const auto src_stride = static_cast<int>(shape.read_strides[4]);
    const auto dst_stride = static_cast<int>(shape.written_strides[4]);
    const uint32_t depth_groups
            = static_cast<uint32_t>(deep.written + depths - 1) / depths;
    wait_for_earlier_work();
    let_later_work_start();

    sum total[size][size][size][vector] = {};
    const uint32_t step_units = walk.parts * static_cast<uint32_t>(walk.slots);
    uint32_t unit = works ? static_cast<uint32_t>(part * walk.slots + slot)
                          : walk.units;
#pragma unroll 1
    for (; unit < walk.units; unit += step_units) {
        uint32_t rest = unit;
        const auto take = [&](uint32_t count) {
            const uint32_t taken = rest % count;
            rest /= count;
            return static_cast<int>(taken);
        };
        int d = 0;
        int w = 0;
        if (walk.channels_last) {
            d = take(depth_groups) * depths;
            w = take(walk.groups) * run;
        } else {
            w = take(walk.groups) * run;
            d = take(depth_groups) * depths;
        }
        const int first = take(walk.strips) * walk.strip_rows;
        const auto image = static_cast<int64_t>(rest);
        const int rows = min(walk.strip_rows, down.written - first);

        const int src_column = w - along.pad;
        const int src_slice = d - deep.pad;
        const uint32_t src_inside
                = walk::columns_inside<span>(src_column, along.read);
        const uint32_t dst_inside = walk::columns_inside<run>(w, along.written);
        const uint32_t slices_inside
                = walk::columns_inside<slices>(src_slice, deep.read);
        const int depths_left = deep.written - d;
        int src_h = first - down.pad;
        int dst_left = rows;
        const Type *from_src = src + image * shape.read_strides[0]
                + channel * shape.read_strides[1]
                + src_slice * shape.read_strides[2]
                + src_h * shape.read_strides[3]
                + src_column * shape.read_strides[4];
        const Type *from_dst = dst + image * shape.written_strides[0]
                + channel * shape.written_strides[1]
                + d * shape.written_strides[2]
                + first * shape.written_strides[3]
                + w * shape.written_strides[4];
        src_row src_loaded[slices];
        dst_row dst_loaded[depths];
        const auto load_src = [&](int slice) {
            const bool inside = static_cast<unsigned>(src_h)
                            < static_cast<unsigned>(down.read)
                    && (slices_inside >> slice & 1U) != 0;
            src_loaded[slice].load(from_src + slice * shape.read_strides[2],
                    src_stride, inside ? src_inside : 0);
        };
        const auto load_dst = [&](int j) {
            const bool inside = dst_left > 0 && j < depths_left;
            dst_loaded[j].load(from_dst + j * shape.written_strides[2],
                    dst_stride, inside ? dst_inside : 0);
        };
        const auto go_on = [&] {
            ++src_h;
            --dst_left;
            from_src += shape.read_strides[3];
            from_dst += shape.written_strides[3];
        };
#pragma unroll
        for (int slice = 0; slice < slices; ++slice)
            load_src(slice);
#pragma unroll
        for (int j = 0; j < depths; ++j)
            load_dst(j);
        go_on();
        // Row y of dst is in place y % size.
        sum kept[size][depths][run][vector] = {};
        int steps = rows + size - 1;
#pragma unroll 1
        while (steps > 0) {
#pragma unroll
            for (int at = 0; at < size; ++at) {
#pragma unroll
                for (int j = 0; j < depths; ++j) {
                    dst_loaded[j].unpack(kept[at][j]);
                    load_dst(j);
                }
#pragma unroll
                for (int slice = 0; slice < slices; ++slice) {
                    sum values[span][vector];
                    src_loaded[slice].unpack(values);
                    if constexpr (loads_first) load_src(slice);
#pragma unroll
                    for (int j = 0; j < depths; ++j) {
                        const int kd = slice - j;
                        if (kd < 0 || kd >= size) continue;
#pragma unroll
                        for (int kh = 0; kh < size; ++kh)
#pragma unroll
                            for (int e = 0; e < size; ++e)
#pragma unroll
                                for (int i = 0; i < run; ++i)
#pragma unroll
                                    for (int v = 0; v < vector; ++v)
                                        total[kd][kh][e][v]
                                                += kept[(at + size - kh) % size]
                                                       [j][i][v]
                                                * values[i + e][v];
                    }
                    if constexpr (!loads_first) load_src(slice);
                }
                go_on();
                if (--steps == 0) break;
            }
        }
    }

    const bool by_warps = walk.lanes == 1;
    const auto write = [&](int kd, int tap, int of_channel, sum of_block) {
        partials[(int64_t {of_channel} * (size * slice_taps) + kd * slice_taps
                         + tap)
                        * walk.parts
                + part]
                = of_block;
    };
#pragma unroll
    for (int kd = 0; kd < size; ++kd) {
        __syncthreads();
#pragma unroll
        for (int tap = 0; tap < slice_taps; ++tap)
#pragma unroll
            for (int v = 0; v < vector; ++v)
                sums[tap][v][thread] = total[kd][tap / size][tap % size][v];
        __syncthreads();
        if (by_warps) {
            // All threads have the same channels: a warp has a tap of one.
#pragma unroll 1
            for (int at = thread / 32; at < slice_taps * vector;
                    at += walk::block_threads / 32) {
                const int tap = at / vector;
                sum of_block = 0;
#pragma unroll
                for (int other = 0; other < walk::block_threads; other += 32)
                    of_block += sums[tap][at % vector][other + thread % 32];
#pragma unroll
                for (int distance = 16; distance > 0; distance /= 2)
                    of_block += __shfl_down_sync(
                            0xffffffffU, of_block, distance);
                if (thread % 32 == 0)
                    write(kd, tap, channel + at % vector, of_block);
            }
        } else {
            // A thread has a channel of a tap.
            const int channels = walk.lanes * vector;
#pragma unroll 1
            for (int at = thread; at < slice_taps * channels;
                    at += walk::block_threads) {
                const int tap = at / channels;
                const int place = at % channels;
                const int of_channel = first_channel + place;
                if (of_channel >= shape.channels) continue;
                sum of_block = 0;
#pragma unroll 1
                for (int other = 0; other < walk.slots; ++other)
                    of_block += sums[tap][place % vector]
                                    [other * walk.lanes + place / vector];
                write(kd, tap, of_channel, of_block);
            }
        }
    }
}

} // namespace

void launch_weights(const execution &on, const walk::work_cut &walk) {
    with_float_type(on.type, [&]<typename Type>() {
        with_constants<Type>(walk, [&]<int vector, int together>() {
            launch_early("convolution.gpu_depthwise_volume (weights)",
                    depthwise_volume_weights_kernel<Type, vector, together>,
                    walk.parts * walk.channel_tiles, walk::block_threads, 0,
                    on.stream, on.read<Type>(), on.written<Type>(),
                    on.sums<sum_of<Type>>(), on.shape, walk);
        });
    });
}

} // namespace gradnn::gpu::depthwise::volume
