// Depthwise convolution, forward and gradient of src, windows of 3x3, 5x5 and
// 7x7 with strides of 1, NCX (not of f64) and NXC, or (gradient of src of NXC)
// of 2.
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
// Counted in the machine code, an element of 3x3 takes 20 instructions in bf16
// NXC, 9 of them products, and 29 where channels are odd. The kernels that read
// a row for every tap row (convolution/depthwise/any) take 39, 99, and in NCX 65
// (measured). Each element is one thread's sum, tap rows in ascending order and
// within them columns of read: the bits of those kernels.
#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/depthwise/walk/device.cuh"

namespace gradnn::gpu::depthwise::walk {

namespace {

/// Blocks of a multiprocessor: what registers leave.
constexpr int data_blocks(int size, int vector, int64_t sum_bytes) {
    if (sum_bytes == 8) return f64_blocks(size, false);
    return size == 7 || (size == 5 && vector == 2) ? 3 : 4;
}

template <typename Type, int size, int stride, int vector, int run, int dense>
__global__ void __launch_bounds__(
        block_threads, data_blocks(size, vector, sizeof(sum_of<Type>)))
        depthwise_walk_data_kernel(const Type *read, const Type *weights,
                Type *written, const __grid_constant__ problem_shape shape,
                const __grid_constant__ work_cut walk) {
    using sum = sum_of<Type>;
    constexpr int span = columns_met<size, stride, run>;
    constexpr int ahead = (size - 1) / stride; // steps before rows complete
    using row = row_columns<Type, run, span, vector, dense>;
    const window_axis &down = shape.axes[1];
    const window_axis &along = shape.axes[2];
    const auto vectors = static_cast<uint32_t>(shape.channels) / vector;
    uint32_t rest = blockIdx.x * block_threads + threadIdx.x;
    if (rest >= walk.items) return;
    const auto take = [&](uint32_t count) {
        const uint32_t taken = rest % count;
        rest /= count;
        return static_cast<int>(taken);
    };
    int channel = 0;
    int w = 0;
    if (walk.channels_last) {
        channel = take(vectors) * vector;
        w = take(walk.groups) * run;
    } else {
        w = take(walk.groups) * run;
        channel = take(vectors);
    }
    const int first = take(walk.strips) * walk.strip_rows; // of the steps
    const int d = take(static_cast<uint32_t>(shape.axes[0].written));
    const auto image = static_cast<int64_t>(rest);
    wait_for_earlier_work();
    let_later_work_start();

    sum by[size][size][vector]; // the taps along W as they are met
#pragma unroll
    for (int kh = 0; kh < size; ++kh)
#pragma unroll
        for (int e = 0; e < size; ++e)
#pragma unroll
            for (int v = 0; v < vector; ++v)
                by[kh][e][v]
                        = widen(weights[(channel + v) * shape.weights_strides[0]
                                + kh * shape.weights_strides[2]
                                + (shape.to_src ? size - 1 - e : e)
                                        * shape.weights_strides[3]]);

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
    const uint32_t inside = columns_inside<span>(first_column, along.read);
    const auto column_stride = static_cast<int>(shape.read_strides[4]);
    const int64_t read_pitch = pitch(shape.read_strides);
    const Type *const first_from = read + image * shape.read_strides[0]
            + channel * shape.read_strides[1] + d * shape.read_strides[2]
            + last_row(down.read, shape.read_strides)
            + first_column * shape.read_strides[4];
    row loaded;
    const auto load_row = [&](int y) {
        const bool row_inside
                = static_cast<unsigned>(y) < static_cast<unsigned>(down.read);
        loaded.load(first_from + y * read_pitch, column_stride,
                row_inside ? inside : 0);
    };

    const int left = along.written - w;
    const auto to_stride = static_cast<int>(shape.written_strides[4]);
    const int64_t written_pitch = pitch(shape.written_strides);
    Type *const first_to = written + image * shape.written_strides[0]
            + channel * shape.written_strides[1] + d * shape.written_strides[2]
            + last_row(down.written, shape.written_strides)
            + w * shape.written_strides[4];
    uint64_t again = 0; // steps with sums that are infinite or NaN
    sum open[size - stride][run][vector] = {};
    load_row(first_y + ahead);
#pragma unroll 1
    for (int step = -ahead; step < steps; ++step) {
        const int y = first_y - step;
        sum values[span][vector];
        loaded.unpack(values);
        load_row(y - 1);
        sum done[stride][run][vector];
        multiply_row<size, stride, run, vector>(
                [&](int kh, int e, int v) { return by[kh][e][v]; },
                [&](int column, int v) { return values[column][v]; }, open,
                done);
        if (step < 0) continue;
        sum of_all = 0; // infinite or NaN if one of them is
#pragma unroll
        for (int j = 0; j < stride; ++j) {
            const int h = y * stride + size - stride + j - walk.steps.pad;
            if (stride > 1
                    && static_cast<unsigned>(h)
                            >= static_cast<unsigned>(down.written))
                continue;
            Type *const to = first_to + h * written_pitch;
            Type *place = to;
#pragma unroll
            for (int i = 0; i < run; ++i) {
#pragma unroll
                for (int v = 0; v < vector; ++v)
                    of_all += done[j][i][v];
                if constexpr (dense == 0) {
                    if (i < left)
                        pack<Type, vector>::of(done[j][i]).stream(place);
                    place = after(place, to_stride);
                } else if (i % row::together == 0 && i < left) {
                    sum some[dense];
#pragma unroll
                    for (int c = 0; c < dense; ++c)
                        some[c] = done[j][i + c][0];
                    pack<Type, dense>::of(some).stream(to + i);
                }
            }
        }
        if (!is_finite(of_all)) again |= uint64_t {1} << step;
    }
#pragma unroll 1
    for (int step = 0; again != 0; ++step, again >>= 1) {
        if ((again & 1U) == 0) continue;
#pragma unroll 1
        for (int j = 0; j < stride; ++j) {
            const int h = (first_y - step) * stride + size - stride + j
                    - walk.steps.pad;
            if (static_cast<unsigned>(h) >= static_cast<unsigned>(down.written))
                continue;
            Type *const to = first_to + h * written_pitch;
#pragma unroll 1
            for (int i = 0; i < min(left, run) * vector; ++i)
                take_again(
                        to[i / vector * shape.written_strides[4] + i % vector],
                        read, weights, shape, image, channel + i % vector, d,
                        mirrored ? down.written - 1 - h : h, w + i / vector);
        }
    }
}

} // namespace

void launch_data(const execution &on, const work_cut &walk) {
    with_float_type(on.type, [&]<typename Type>() {
        with_constants<Type, false>(on.shape, walk,
                [&]<int size, int stride, int vector, int run, int dense>() {
                    launch_early("convolution.gpu_depthwise_walk",
                            depthwise_walk_data_kernel<Type, size, stride,
                                    vector, run, dense>,
                            ceil_div(walk.items, block_threads), block_threads,
                            0, on.stream, on.read<Type>(), on.weights<Type>(),
                            on.written<Type>(), on.shape, walk);
                });
    });
}

} // namespace gradnn::gpu::depthwise::walk
