// Depthwise convolution, gradient of the weights, windows of 3x3, 5x5 and 7x7
// with strides and dilations of 1, NCX (not of f64) and NXC, and of 3x3x3.
//
//     diff_weights[k,c] = sum over n, y of src[n,y-pad+k,c] * dst[n,y,c]
//
// A thread has all taps of some channels (of NCX one), and of dst strips of
// neighbouring columns and rows, one after the other. It walks down a strip, a
// row of src and one of dst at a time, one row ahead: it keeps the last rows of
// dst, as many as the window has, and multiplies them with the row of src into
// the taps' sums. Of 3x3x3 its strips have two neighbouring depths: in a step it
// takes a row of both slices of dst and of the four of src that these meet. In
// the end a block adds up its threads of the same channels, in a fixed order, and
// writes one partial sum a weight, which a second launch adds up
// (convolution/depthwise/parts.cu). What is outside is zeros; what comes out
// infinite or NaN is taken again there. The order of the sums is the same whatever
// the vectors.
//
// Counted in the machine code, a pixel of 3x3 takes 19 instructions a channel in
// bf16 NXC, of which 9 are products; convolution/depthwise/any/weights_nxc.cu, which
// reads its rows for every tap row, takes 34 (measured). An element of dst of 3x3x3
// takes 44 in bf16, in f32 42 (NCX) or 55, of which 27 are products.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/walk/device.cuh"

namespace gradnn::gpu::depthwise::walk {

namespace {

/// Blocks of a multiprocessor: what registers leave.
constexpr int weights_blocks(
        int deep, int size, int vector, int64_t element_bytes) {
    if (deep > 1) return element_bytes == 8 || vector == 2 ? 2 : 3;
    if (element_bytes == 8) return f64_blocks(size, true);
    return size < 7 && (vector == 1 || (size == 3 && element_bytes == 2)) ? 4
                                                                          : 3;
}

/// The sums of the taps of one slice of a 3x3x3 window, added up by all threads of a
/// block, whose channels begin with `first_channel`. write(tap, channel, sum) keeps
/// one.
template <int taps, int vector, typename Sum, typename Write>
__device__ __forceinline__ void add_up_slice(
        Sum (&sums)[taps][vector][walking_threads], const problem_shape &shape,
        const work_cut &walk, int first_channel, const Write &write) {
    const auto thread = static_cast<int>(threadIdx.x);
    if (walk.lanes == 1) {
        // All threads have the same channels: a warp has a tap of one.
#pragma unroll 1
        for (int at = thread / 32; at < taps * vector;
                at += walking_threads / 32) {
            Sum of_block = 0;
#pragma unroll
            for (int other = 0; other < walking_threads; other += 32)
                of_block += sums[at / vector][at % vector][other + thread % 32];
            of_block = sum_of_warp(of_block);
            if (thread % 32 == 0)
                write(at / vector, first_channel + at % vector, of_block);
        }
    } else {
        // A thread has a channel of a tap.
        const int channels = walk.lanes * vector;
#pragma unroll 1
        for (int at = thread; at < taps * channels; at += walking_threads) {
            const int tap = at / channels;
            const int place = at % channels;
            if (first_channel + place >= shape.channels) continue;
            Sum of_block = 0;
#pragma unroll 1
            for (int other = 0; other < walk.slots; ++other)
                of_block += sums[tap][place % vector]
                                [other * walk.lanes + place / vector];
            write(tap, first_channel + place, of_block);
        }
    }
}

template <typename Type, int deep_size, int size, int vector, int run,
        int dense>
__global__ void __launch_bounds__(
        walking_threads, weights_blocks(deep_size, size, vector, sizeof(Type)))
        depthwise_walk_weights_kernel(const Type *src, const Type *dst,
                sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut walk) {
    using sum = sum_of<Type>;
    constexpr int depths = depths_of(deep_size);
    constexpr int slices = depths + deep_size - 1;
    constexpr int span = run + size - 1;
    constexpr bool loads_first = loads_row_first<Type, deep_size, dense>;
    using src_row = row_columns<Type, run, span, vector, dense>;
    using dst_row = row_columns<Type, run, run, vector, dense>;
    // Of 3x3x3 those of a slice of the window at a time.
    constexpr int taps_together = deep_size == 1 ? 1 : size * size;
    __shared__ sum sums[taps_together][vector][walking_threads];
    const auto &[deep, down, along] = shape.axes;
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
    wait_and_let_later_work_start();

    sum total[deep_size][size][size][vector] = {};
    const uint32_t step_units = walk.parts * static_cast<uint32_t>(walk.slots);
    uint32_t unit = works ? static_cast<uint32_t>(part * walk.slots + slot)
                          : walk.units;
#pragma unroll 1
    for (; unit < walk.units; unit += step_units) {
        uint32_t rest = unit;
        const auto take_depths = [&] {
            return take(rest,
                           static_cast<uint32_t>(deep.written + depths - 1)
                                   / depths)
                    * depths;
        };
        int d = 0;
        if (deep_size > 1 && walk.channels_last) d = take_depths();
        const int w = take(rest, walk.groups) * run;
        if (deep_size > 1 && !walk.channels_last) d = take_depths();
        const int first = take(rest, walk.strips) * walk.strip_rows;
        if constexpr (deep_size == 1) d = take_depths();
        const auto image = static_cast<int64_t>(rest);
        const int rows = min(walk.strip_rows, down.written - first);

        const int src_column = w + shape.base;
        // Of one depth there is one slice, which is inside.
        const int src_slice = deep_size == 1 ? d : d - deep.pad;
        const uint32_t src_inside
                = columns_inside<span>(src_column, along.read);
        const uint32_t dst_inside = columns_inside<run>(w, along.written);
        const uint32_t slices_inside = deep_size == 1
                ? 1
                : columns_inside<slices>(src_slice, deep.read);
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
            const bool inside = is_inside(src_h, down.read)
                    && (slices_inside >> slice & 1U) != 0;
            src_loaded[slice].load(from_src + slice * shape.read_strides[2],
                    src_stride, inside ? src_inside : 0);
        };
        const auto load_dst = [&](int j) {
            const bool inside
                    = dst_left > 0 && (deep_size == 1 || j < depths_left);
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
                for (int slice = 0; slice < slices; ++slice) {
                    sum values[span][vector];
                    src_loaded[slice].unpack(values);
                    if (slice == 0)
#pragma unroll
                        for (int j = 0; j < depths; ++j)
                            dst_loaded[j].unpack(kept[at][j]);
                    if constexpr (loads_first) load_src(slice);
                    if (slice == 0)
#pragma unroll
                        for (int j = 0; j < depths; ++j)
                            load_dst(j);
                    if (deep_size == 1) go_on();
#pragma unroll
                    for (int j = 0; j < depths; ++j) {
                        const int kd = slice - j;
                        if (kd < 0 || kd >= deep_size) continue;
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
                if (deep_size > 1) go_on();
                if (--steps == 0) break;
            }
        }
    }

    if constexpr (deep_size > 1) {
#pragma unroll
        for (int kd = 0; kd < deep_size; ++kd) {
            __syncthreads();
#pragma unroll
            for (int tap = 0; tap < taps_together; ++tap)
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    sums[tap][v][thread] = total[kd][tap / size][tap % size][v];
            __syncthreads();
            add_up_slice(sums, shape, walk, first_channel,
                    [&](int tap, int of_channel, sum of_block) {
                        partials[(int64_t {of_channel}
                                                 * (deep_size * taps_together)
                                         + kd * taps_together + tap)
                                        * walk.parts
                                + part]
                                = of_block;
                    });
        }
        return;
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
                const sum each = total[0][kh][e][v];
                sums[0][v][thread] = by_warps ? sum_of_warp(each) : each;
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
                    of_block += sums[0][v][other];
                partials[((int64_t {channel} + v) * (size * size) + kh * size
                                 + e)
                                * walk.parts
                        + part]
                        = of_block;
            }
        }
}

} // namespace

launcher weights_launcher(const launch_facts &facts, const work_cut &walk) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_constants<Type, true>(facts.shape, walk,
                [&]<int deep, int size, int, int vector, int run, int dense>() {
                    return launch_of_weights(facts,
                            "convolution.gpu_depthwise_walk (weights)",
                            depthwise_walk_weights_kernel<Type, deep, size,
                                    vector, run, dense>,
                            walk.parts * walk.channel_tiles, walking_threads, 0,
                            walk);
                });
    });
}

} // namespace gradnn::gpu::depthwise::walk
