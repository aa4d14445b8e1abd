// Depthwise convolution, forward and gradient of src, windows of 3x3, 5x5 and
// 7x7 with strides of 1, NCX (not of f64) and NXC, or (gradient of src of NXC)
// of 2; and of 3x3x3 with strides of 1.
//
//     written[n,x,c] = sum over k of weights[k,c] * read[n,position(x,k),c]
//
// A thread has some channels of neighbouring columns (of NCX one channel) and
// walks along H, down in the forward direction and up in the gradient of src,
// so that the taps come in ascending order. It reads each row of its columns
// once, one row ahead, and multiplies it into the sums of the rows of written
// that meet it, of which it keeps those that this does not complete; the
// weights stay in registers. Neighbouring threads have neighbouring channels
// (NXC) or columns. Columns and rows outside are zeros, and sums that come out
// NaN are taken again from the definition.
//
// Of 3x3x3 a thread has two neighbouring depths, and in a step takes a row of
// each of the four slices that these meet. Neighbouring threads then have
// neighbouring depths (NXC), as they have behind columns (NCX): what threads of a
// block read twice comes from L1.
//
// Counted in the machine code, an element of 3x3 takes 20 instructions in bf16
// NXC, 9 of them products, and 29 where channels are odd. The kernels that read
// a row for every tap row (convolution/depthwise/any) take 39, 99, and in NCX 65
// (measured). An element of 3x3x3 takes 45 in bf16, in f32 44 (NCX) or 56, of
// which 27 are products; and at the ends of a strip there are two rows of which
// some products are wasted. Each element is one thread's sum, tap rows of H in
// ascending order, within them those of D, within them columns of read: of planes
// the bits of those kernels.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/walk/device.cuh"

namespace gradnn::gpu::depthwise::walk {

namespace {

/// Blocks of a multiprocessor: what registers leave.
constexpr int data_blocks(
        int deep, int size, int stride, int vector, int64_t element_bytes) {
    if (deep > 1) return element_bytes == 8 ? 2 : vector == 2 ? 3 : 4;
    if (element_bytes == 8) return f64_blocks(size, false);
    const bool many = stride == 1 || element_bytes == 4; // of registers
    return size == 7 || (size == 5 && vector == 2 && many) ? 3 : 4;
}

/// Multiplies a row into the sums that multiply_row began with a row of another
/// slice, at the same H.
template <int size, int run, int vector, typename Sum>
__device__ __forceinline__ void add_row(const Sum (&by)[size][size][vector],
        const Sum (&values)[run + size - 1][vector],
        Sum (&open)[size - 1][run][vector], Sum (&done)[1][run][vector]) {
#pragma unroll
    for (int kh = size - 1; kh >= 0; --kh)
#pragma unroll
        for (int i = 0; i < run; ++i)
#pragma unroll
            for (int v = 0; v < vector; ++v)
#pragma unroll
                for (int e = 0; e < size; ++e)
                    (kh < size - 1 ? open[kh] : done[0])[i][v]
                            += by[kh][e][v] * values[i + e][v];
}

template <typename Type, int deep_size, int size, int stride, int vector,
        int run, int dense>
__global__ void __launch_bounds__(walking_threads,
        data_blocks(deep_size, size, stride, vector, sizeof(Type)))
        depthwise_walk_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut walk) {
    using sum = sum_of<Type>;
    constexpr int depths = depths_of(deep_size);
    constexpr int slices = depths + deep_size - 1;
    constexpr int span = columns_met<size, stride, run>;
    constexpr int ahead = (size - 1) / stride; // steps before rows complete
    constexpr bool loads_first = loads_row_first<Type, deep_size, dense>;
    using row = row_columns<Type, run, span, vector, dense>;
    const auto &[deep, down, along] = shape.axes;
    uint32_t rest = blockIdx.x * walking_threads + threadIdx.x;
    if (rest >= walk.items) return;
    int channel = 0;
    int d = 0;
    int w = 0;
    // Of several depths the channels' lanes come first, their tiles last.
    if constexpr (deep_size > 1) channel = take(rest, walk.lanes);
    const auto take_columns = [&] { w = take(rest, walk.groups) * run; };
    const auto take_beside = [&] {
        if constexpr (deep_size == 1)
            channel = take(rest, static_cast<uint32_t>(shape.channels) / vector)
                    * vector;
        else
            d = take(rest,
                        static_cast<uint32_t>(deep.written + depths - 1)
                                / depths)
                    * depths;
    };
    if (walk.channels_last) {
        take_beside();
        take_columns();
    } else {
        take_columns();
        take_beside();
    }
    const int first = take(rest, walk.strips) * walk.strip_rows; // of the steps
    if constexpr (deep_size == 1)
        d = take(rest, static_cast<uint32_t>(deep.written));
    else
        channel = (take(rest, walk.channel_tiles) * walk.lanes + channel)
                * vector;
    const auto image = static_cast<int64_t>(rest);
    if (deep_size > 1 && channel >= shape.channels) return;
    wait_and_let_later_work_start();

    // The taps along D and W as they are met.
    sum by[deep_size][size][size][vector];
    const auto met
            = [&](int e, int taps) { return shape.to_src ? taps - 1 - e : e; };
#pragma unroll
    for (int ed = 0; ed < deep_size; ++ed)
#pragma unroll
        for (int kh = 0; kh < size; ++kh)
#pragma unroll
            for (int e = 0; e < size; ++e)
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    by[ed][kh][e][v] = widen(weights[(channel + v)
                                    * shape.weights_strides[0]
                            + met(ed, deep_size) * shape.weights_strides[1]
                            + kh * shape.weights_strides[2]
                            + met(e, size) * shape.weights_strides[3]]);

    // Rows as the gradient of src sees them: forward they are mirrored.
    const bool mirrored = !shape.to_src;
    const auto pitch = [&](const int64_t *strides) {
        return mirrored ? -strides[3] : strides[3];
    };
    const auto last_row = [&](int rows, const int64_t *strides) {
        return mirrored ? (rows - 1) * strides[3] : 0;
    };
    const int first_y = walk.steps.top - first;
    const int steps = min(walk.strip_rows, walk.steps.count - first);
    const int first_column = first_column_met<size, stride>(shape, w);
    // Of one depth there is one slice, which is inside.
    const int first_slice = deep_size == 1 ? d
            : shape.to_src                 ? d + deep.pad - (deep_size - 1)
                                           : d - deep.pad;
    const uint32_t inside = columns_inside<span>(first_column, along.read);
    const uint32_t slices_inside = deep_size == 1
            ? 1
            : columns_inside<slices>(first_slice, deep.read);
    const auto column_stride = static_cast<int>(shape.read_strides[4]);
    const int64_t read_pitch = pitch(shape.read_strides);
    int next_y = first_y + ahead; // the row to be loaded
    const Type *from = read + image * shape.read_strides[0]
            + channel * shape.read_strides[1]
            + first_slice * shape.read_strides[2]
            + last_row(down.read, shape.read_strides) + next_y * read_pitch
            + first_column * shape.read_strides[4];
    row loaded[slices];
    const auto load_row = [&](int slice) {
        const bool row_inside = is_inside(next_y, down.read)
                && (slices_inside >> slice & 1U) != 0;
        loaded[slice].load(from + slice * shape.read_strides[2], column_stride,
                row_inside ? inside : 0);
    };
    const auto go_on = [&] {
        --next_y;
        from -= read_pitch;
    };

    const int left = along.written - w;
    const int depths_left = deep_size == 1 ? 1 : min(depths, deep.written - d);
    const auto to_stride = static_cast<int>(shape.written_strides[4]);
    const int64_t written_pitch = pitch(shape.written_strides);
    // The row of written that a step completes as its jth.
    const auto row_of = [&](int step, int j) {
        return (first_y - step) * stride + size - stride + j - walk.steps.pad;
    };
    Type *to = written + image * shape.written_strides[0]
            + channel * shape.written_strides[1] + d * shape.written_strides[2]
            + last_row(down.written, shape.written_strides)
            + row_of(0, 0) * written_pitch + w * shape.written_strides[4];
    uint64_t again = 0; // steps with sums that are infinite or NaN
    sum open[depths][size - stride][run][vector] = {};
#pragma unroll
    for (int slice = 0; slice < slices; ++slice)
        load_row(slice);
    go_on();
#pragma unroll 1
    for (int step = -ahead; step < steps; ++step) {
        sum done[depths][stride][run][vector];
#pragma unroll
        for (int slice = 0; slice < slices; ++slice) {
            sum values[span][vector];
            loaded[slice].unpack(values);
            if constexpr (loads_first) load_row(slice);
#pragma unroll
            for (int depth = 0; depth < depths; ++depth) {
                const int ed = slice - depth;
                if (ed == 0)
                    multiply_row<size, stride, run, vector>(
                            [&](int kh, int e, int v) {
                                return by[0][kh][e][v];
                            },
                            [&](int column, int v) {
                                return values[column][v];
                            },
                            open[depth], done[depth]);
                else if constexpr (deep_size > 1)
                    if (ed > 0 && ed < deep_size)
                        add_row<size, run, vector>(
                                by[ed], values, open[depth], done[depth]);
            }
            if constexpr (!loads_first) load_row(slice);
        }
        go_on();
        if (step < 0) continue;
        sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
        for (int j = 0; j < depths * stride; ++j) {
            const int depth = j / stride;
            const int h = row_of(step, j % stride);
            if ((stride > 1 && !is_inside(h, down.written))
                    || depth >= depths_left)
                continue;
            const sum(&sums)[run][vector] = done[depth][j % stride];
            Type *const row_to = to + j % stride * written_pitch
                    + depth * shape.written_strides[2];
            Type *place = row_to;
#pragma unroll
            for (int i = 0; i < run; ++i) {
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    of_all += sums[i][v];
                if constexpr (dense == 0) {
                    if (i < left) pack<Type, vector>::of(sums[i]).stream(place);
                    place = after(place, to_stride);
                } else if (i % row::together == 0 && i < left) {
                    sum some[dense];
#pragma unroll
                    for (int c = 0; c < dense; ++c)
                        some[c] = sums[i + c][0];
                    pack<Type, dense>::of(some).stream(row_to + i);
                }
            }
        }
        if (!is_finite(of_all)) again |= uint64_t {1} << step;
        to -= stride * written_pitch;
    }
    to += steps * stride * written_pitch; // where the first step began
#pragma unroll 1
    for (int step = 0; again != 0;
            ++step, again >>= 1, to -= stride * written_pitch) {
        if ((again & 1U) == 0) continue;
#pragma unroll 1
        for (int j = 0; j < depths_left * stride; ++j) {
            const int h = row_of(step, j % stride);
            if (!is_inside(h, down.written)) continue;
            const int depth = j / stride;
            Type *const row_to = to + j % stride * written_pitch
                    + depth * shape.written_strides[2];
#pragma unroll 1
            for (int i = 0; i < min(left, run) * vector; ++i)
                take_again(row_to[i / vector * shape.written_strides[4]
                                   + i % vector],
                        read, weights, shape, image, channel + i % vector,
                        d + depth, mirrored ? down.written - 1 - h : h,
                        w + i / vector);
        }
    }
}

} // namespace

launcher data_launcher(const launch_facts &facts, const work_cut &walk) {
    return with_float_type(facts.type, [&]<typename Type>() {
        return with_constants<Type, false>(facts.shape, walk,
                [&]<int deep, int size, int stride, int vector, int run,
                        int dense>() {
                    return launch_of_data(facts,
                            "convolution.gpu_depthwise_walk",
                            depthwise_walk_data_kernel<Type, deep, size, stride,
                                    vector, run, dense>,
                            ceil_div(walk.items, walking_threads),
                            walking_threads, 0, walk);
                });
    });
}

} // namespace gradnn::gpu::depthwise::walk
