// Depthwise convolution, forward and gradient of src, windows of 3x3x3 with
// strides and dilations of 1, NCX and NXC.
//
//     written[n,x,c] = sum over k of weights[k,c] * read[n,position(x,k),c]
//
// A thread has one channel (of 16 bits in NXC two) of four neighbouring columns
// and two neighbouring depths, and walks along H as the threads of
// convolution/depthwise/walk/data.cu do. In a step it takes a row of each of
// the four slices that its depths meet, loaded a step ahead, and multiplies it
// into the sums of the rows of written that meet it; the weights stay in
// registers. Neighbouring threads have neighbouring channels, then depths
// (NXC), or columns, then depths (NCX): what threads of a block read twice
// comes from L1. What is outside is zeros, and sums that come out NaN are taken
// again from the definition.
//
// Counted in the machine code, an element takes 45 instructions in bf16, in f32
// 44 (NCX) or 56, of which 27 are products; and at the ends of a strip there are
// two rows of which some products are wasted. Each element is one thread's sum,
// tap rows of H in ascending order, within them those of D, within them columns of
// read.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/volume/device.cuh"

namespace gradnn::gpu::depthwise::volume {

namespace {

/// Blocks of a multiprocessor: what registers leave.
constexpr int data_blocks(int vector, int64_t sum_bytes) {
    return sum_bytes == 8 ? 2 : vector == 2 ? 3 : 4;
}

/// Multiplies a row into the sums that multiply_row began with a row of another
/// slice, at the same H.
template <int run, int vector, typename Sum>
__device__ __forceinline__ void add_row(
        const Sum (&by)[window_size][window_size][vector],
        const Sum (&values)[run + window_size - 1][vector],
        Sum (&open)[window_size - 1][run][vector],
        Sum (&done)[1][run][vector]) {
#pragma unroll
    for (int kh = window_size - 1; kh >= 0; --kh)
#pragma unroll
        for (int i = 0; i < run; ++i)
#pragma unroll
            for (int v = 0; v < vector; ++v)
#pragma unroll
                for (int e = 0; e < window_size; ++e)
                    (kh < window_size - 1 ? open[kh] : done[0])[i][v]
                            += by[kh][e][v] * values[i + e][v];
}

template <typename Type, int vector, int together>
__global__ void __launch_bounds__(
        walk::block_threads, data_blocks(vector, sizeof(sum_of<Type>)))
        depthwise_volume_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ walk::work_cut walk) {
    using sum = sum_of<Type>;
    constexpr int size = window_size;
    constexpr int run = strip_columns;
    constexpr int depths = strip_depths;
    constexpr int slices = depths + size - 1;
    constexpr int span = run + size - 1;
    constexpr int ahead = size - 1; // steps before rows complete
    constexpr bool loads_first = loads_row_first<Type, together>;
    using row = walk::row_columns<Type, run, span, vector,
            together == 1 ? 0 : together>;
    const window_axis &deep = shape.axes[0];
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    uint32_t rest = blockIdx.x * walk::block_threads + threadIdx.x;
    if (rest >= walk.items) return;
    const auto take = [&](uint32_t count) {
        const uint32_t taken = rest % count;
        rest /= count;
        return static_cast<int>(taken);
    };
    const uint32_t depth_groups
            = static_cast<uint32_t>(deep.written + depths - 1) / depths;
    int channel = take(walk.lanes);
    int d = 0;
    int w = 0;
    if (walk.channels_last) {
        d = take(depth_groups) * depths;
        w = take(walk.groups) * run;
    } else {
        w = take(walk.groups) * run;
        d = take(depth_groups) * depths;
    }
    const int first = take(walk.strips) * walk.strip_rows; // of the steps
    channel = (take(walk.channel_tiles) * walk.lanes + channel) * vector;
    const auto image = static_cast<int64_t>(rest);
    if (channel >= shape.channels) return;
    wait_for_earlier_work();
    let_later_work_start();

    // The taps along D and W as they are met.
    sum by[size][size][size][vector];
    const auto met = [&](int e) { return shape.to_src ? size - 1 - e : e; };
#pragma unroll
    for (int ed = 0; ed < size; ++ed)
#pragma unroll
        for (int kh = 0; kh < size; ++kh)
#pragma unroll
            for (int e = 0; e < size; ++e)
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    by[ed][kh][e][v] = widen(
                            weights[(channel + v) * shape.weights_strides[0]
                                    + met(ed) * shape.weights_strides[1]
                                    + kh * shape.weights_strides[2]
                                    + met(e) * shape.weights_strides[3]]);

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
    const int first_column = first_column_met<size, 1>(shape, w);
    const int first_slice
            = shape.to_src ? d + deep.pad - (size - 1) : d - deep.pad;
    const uint32_t inside
            = walk::columns_inside<span>(first_column, along.read);
    const uint32_t slices_inside
            = walk::columns_inside<slices>(first_slice, deep.read);
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
        const bool row_inside = static_cast<unsigned>(next_y)
                < static_cast<unsigned>(down.read);
        loaded[slice].load(from + slice * shape.read_strides[2], column_stride,
                row_inside && (slices_inside >> slice & 1U) != 0 ? inside : 0);
    };
    const auto go_on = [&] {
        --next_y;
        from -= read_pitch;
    };

    const int left = along.written - w;
    const int depths_left = min(depths, deep.written - d);
    const auto to_stride = static_cast<int>(shape.written_strides[4]);
    const int64_t written_pitch = pitch(shape.written_strides);
    const int first_h = first_y + ahead - walk.steps.pad;
    Type *const first_to = written + image * shape.written_strides[0]
            + channel * shape.written_strides[1] + d * shape.written_strides[2]
            + last_row(down.written, shape.written_strides)
            + first_h * written_pitch + w * shape.written_strides[4];
    Type *to = first_to;
    uint64_t again = 0; // steps with sums that are infinite or NaN
    sum open[depths][size - 1][run][vector] = {};
#pragma unroll
    for (int slice = 0; slice < slices; ++slice)
        load_row(slice);
    go_on();
#pragma unroll 1
    for (int step = -ahead; step < steps; ++step) {
        sum done[depths][1][run][vector];
#pragma unroll
        for (int slice = 0; slice < slices; ++slice) {
            sum values[span][vector];
            loaded[slice].unpack(values);
            if constexpr (loads_first) load_row(slice);
#pragma unroll
            for (int j = 0; j < depths; ++j) {
                const int ed = slice - j;
                if (ed == 0)
                    multiply_row<size, 1, run, vector>(
                            [&](int kh, int e, int v) {
                                return by[0][kh][e][v];
                            },
                            [&](int column, int v) {
                                return values[column][v];
                            },
                            open[j], done[j]);
                else if (ed > 0 && ed < size)
                    add_row<run, vector>(by[ed], values, open[j], done[j]);
            }
            if constexpr (!loads_first) load_row(slice);
        }
        go_on();
        if (step < 0) continue;
        sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
        for (int j = 0; j < depths; ++j) {
            if (j >= depths_left) continue;
            Type *const of_depth = to + j * shape.written_strides[2];
            Type *place = of_depth;
#pragma unroll
            for (int i = 0; i < run; ++i) {
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    of_all += done[j][0][i][v];
                if constexpr (together == 1) {
                    if (i < left)
                        pack<Type, vector>::of(done[j][0][i]).stream(place);
                    place = walk::after(place, to_stride);
                } else if (i % together == 0 && i < left) {
                    sum some[together];
#pragma unroll
                    for (int c = 0; c < together; ++c)
                        some[c] = done[j][0][i + c][0];
                    pack<Type, together>::of(some).stream(of_depth + i);
                }
            }
        }
        if (!is_finite(of_all)) again |= uint64_t {1} << step;
        to -= written_pitch;
    }
#pragma unroll 1
    for (int step = 0; again != 0; ++step, again >>= 1) {
        if ((again & 1U) == 0) continue;
        const int h = first_h - step;
#pragma unroll 1
        for (int j = 0; j < depths_left; ++j)
#pragma unroll 1
            for (int i = 0; i < min(left, run) * vector; ++i)
                take_again(first_to[j * shape.written_strides[2]
                                   - step * written_pitch
                                   + i / vector * shape.written_strides[4]
                                   + i % vector],
                        read, weights, shape, image, channel + i % vector,
                        d + j, mirrored ? down.written - 1 - h : h,
                        w + i / vector);
    }
}

} // namespace

void launch_data(const execution &on, const walk::work_cut &walk) {
    with_float_type(on.type, [&]<typename Type>() {
        with_constants<Type>(walk, [&]<int vector, int together>() {
            launch_early("convolution.gpu_depthwise_volume",
                    depthwise_volume_data_kernel<Type, vector, together>,
                    ceil_div(walk.items, walk::block_threads),
                    walk::block_threads, 0, on.stream, on.read<Type>(),
                    on.weights<Type>(), on.written<Type>(), on.shape, walk);
        });
    });
}

} // namespace gradnn::gpu::depthwise::volume
