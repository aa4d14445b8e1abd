// Gradient of src with one to four channels along one axis. See few_channels.cpp.
//
// Rows are long and few, and their products hardly outnumber the elements of
// diff_dst: reading it is the bound, so many threads must read at once. A warp
// is a `way`; a thread has `cells` neighbouring v with all phases.
//
// A warp brings the rows of diff_dst of its eight output channels, and their
// weights, to shared memory of its own, which holds two such stages: one is
// filled while the other is used. It waits for no other warp. In NXC four
// columns of the eight channels are one access. At the end the ways' sums meet
// in shared memory, where the stages were.
#include "gpu/convolution/few_channels/shape.hpp"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::few_channels {

namespace {

/// One element from the definition. Channel i, position x.
__device__ __noinline__ float sum_again(const problem_shape &shape,
        const float *image, const float *gathered, int i, int x) {
    const int channels = shape.held_channels;
    const int taps = tap_floats(shape.steps, shape.stride, channels);
    float sum = 0;
    for (int o = 0; o < shape.outputs; ++o)
        for (int k = 0; k < shape.kernel; ++k) {
            const int reached = x + shape.pad - k;
            const int y = reached / shape.stride;
            if (reached < 0 || y * shape.stride != reached || y >= shape.dst)
                continue;
            sum = __fmaf_rn(gathered[o * taps + k * channels + i],
                    image[o * shape.dst_strides[1] + y * shape.dst_strides[2]],
                    sum);
        }
    return sum;
}

/// Adds to a thread's sums, of `cells` neighbouring v with all phases, the products of
/// a row of diff_dst, as it is staged, and its weights. The window's first cells begin
/// at `near`, the others, which may lie beyond a gap, as if at `far`.
template <int steps, int stride, int channels, int cells>
__device__ __forceinline__ void add_row(float (&sums)[channels][cells * stride],
        const float *row, int near, int far, const float *weights) {
    constexpr int taps = tap_floats(steps, stride, channels);
    constexpr int window = (cells + steps - 1 + 3) / 4; // of 16 bytes
    float values[window * 4];
#pragma unroll
    for (int v = 0; v < window; ++v)
        load_values<4>(
                values + 4 * v, row + (v * 4 < cells ? near : far) + v * 4);
    float weight[taps];
    load_values<taps>(weight, weights);
#pragma unroll
    for (int k = 0; k < steps; ++k)
#pragma unroll
        for (int s = 0; s < stride; ++s)
#pragma unroll
            for (int i = 0; i < channels; ++i)
#pragma unroll
                for (int c = 0; c < cells; ++c)
                    sums[i][c * stride + s] = __fmaf_rn(
                            weight[(k * stride + s) * channels + i],
                            values[c + steps - 1 - k], sums[i][c * stride + s]);
}

/// Three blocks of one channel on a multiprocessor: what shared memory leaves.
template <int steps, int stride, int channels>
__global__ void __launch_bounds__(most_threads, channels == 1 ? 3 : 2)
        few_data_kernel(const float *diff_dst, const float *gathered,
                float *diff_src, const __grid_constant__ problem_shape shape) {
    constexpr int outputs = stage_outputs;
    constexpr int cells = cells_of(stride);
    constexpr int taps = tap_floats(steps, stride, channels);
    constexpr int columns = lanes * cells + steps - 1; // of a whole piece
    constexpr int pitch = row_pitch(steps, stride);
    constexpr int slot_floats = outputs * (pitch + taps);
    constexpr int run = cells * stride; // columns of diff_src of a thread
    constexpr int sums_pitch = sums_pitch_of(stride);
    constexpr int warp_floats = floats_of_warp(steps, stride, channels);
    static_assert(steps - 1 <= cells && run % 4 == 0);
    extern __shared__ float4 shared[];
    auto *const stages = reinterpret_cast<float *>(shared);
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    const int lane = thread % lanes;
    const int way = thread / lanes;
    const int ways = threads / lanes;
    float *const own = stages + way * warp_floats;

    const auto tile = static_cast<int>(blockIdx.x % shape.column_tiles);
    const auto n = static_cast<int64_t>(blockIdx.x / shape.column_tiles);
    const float *const image = diff_dst + n * shape.dst_strides[0];
    const int chunks = (shape.outputs + outputs - 1) / outputs;
    const int tile_cell = shape.first + tile * shape.segments * cells;
    const int first_column = tile_cell - (steps - 1);
    // Nothing to be left out, so that the loops below have fixed bounds.
    const bool whole = shape.staged_columns == columns && first_column >= 0
            && first_column + columns <= shape.dst;
    wait_and_let_later_work_start();

    const int64_t channel_stride = shape.dst_strides[1];
    const int64_t column_stride = shape.dst_strides[2];
    // Column c of a row, or zero.
    const auto copy = [&](float *to, const float *row, int c) {
        const int x = first_column + c;
        const bool inside = is_inside(x, shape.dst);
        copy_async_or_zero<4>(inside, to + place_of(stride, c),
                inside ? row + x * column_stride : image);
    };
    const auto load_columns_first = [&](float *to, const float *row,
                                            int count) {
        if (whole && column_stride == 1) {
            row += first_column + lane;
            to += lane;
#pragma unroll 1
            for (int o = 0; o < count; ++o) {
#pragma unroll
                for (int c = 0; c < columns; c += lanes)
                    copy_async_if<4>(c + lanes <= columns || c + lane < columns,
                            to + place_of(stride, c), row + c);
                row += channel_stride;
                to += pitch;
            }
            return;
        }
#pragma unroll 1
        for (int o = 0; o < count; ++o) {
#pragma unroll 1
            for (int c = lane; c < shape.staged_columns; c += lanes)
                copy(to, row, c);
            row += channel_stride;
            to += pitch;
        }
    };
    // A lane has one output channel and every `step`-th column.
    constexpr int step = lanes / outputs;
    const int lane_output = lane % outputs;
    const int lane_column = lane / outputs;
    const auto load_channels_first = [&](float *to, const float *row,
                                             int count) {
        if (lane_output >= count) return;
        row += lane_output * channel_stride;
        to += lane_output * pitch;
        if (whole) {
            constexpr int rest = columns / step * step;
            const float *from
                    = row + (first_column + lane_column) * column_stride;
            const int64_t move = step * column_stride;
            to += lane_column;
#pragma unroll 8
            for (int c = 0; c < rest; c += step) {
                copy_async<4>(to + place_of(stride, c), from);
                from += move;
            }
            copy_async_if<4>(rest + lane_column < columns,
                    to + place_of(stride, rest), from);
        } else {
#pragma unroll 1
            for (int c = lane_column; c < shape.staged_columns; c += step)
                copy(to, row, c);
        }
    };
    const auto count_of = [&](int chunk) {
        return min(outputs, shape.outputs - chunk * outputs);
    };
    const auto load = [&](int chunk, int slot) {
        float *const to = own + slot * slot_floats;
        const int count = count_of(chunk);
        const int64_t first = int64_t {chunk} * outputs;
        const float *const from = image + first * channel_stride;
        if (shape.channels_last)
            load_channels_first(to, from, count);
        else
            load_columns_first(to, from, count);
#pragma unroll 1
        for (int i = lane * 4; i < count * taps; i += lanes * 4)
            copy_async<16>(
                    to + outputs * pitch + i, gathered + first * taps + i);
    };

    float sums[channels][run] = {}; // cells, phases
    const int near = place_of(stride, lane * cells);
    const int far = place_of(stride, lane * cells + cells) - cells;
    const auto add_stage = [&](int slot, int count) {
        const float *const rows = own + slot * slot_floats;
        const float *const of_stage = rows + outputs * pitch;
#pragma unroll 1
        for (int o = 0; o < count; ++o)
            add_row<steps, stride, channels, cells>(
                    sums, rows + o * pitch, near, far, of_stage + o * taps);
    };
    const bool computes = lane < shape.segments;
    int slot = 1;
    // Once before the first, to bring it.
#pragma unroll 1
    for (int chunk = way - ways; chunk < chunks; chunk += ways) {
        wait_for_copies<0>();
        __syncwarp(); // this slot is there, the other has been read
        if (chunk + ways < chunks) load(chunk + ways, 1 - slot);
        commit_copies();
        if (chunk >= 0 && computes) add_stage(slot, count_of(chunk));
        slot = 1 - slot;
    }
    __syncwarp(); // the slots have been read

    if (computes)
#pragma unroll
        for (int i = 0; i < channels; ++i)
#pragma unroll
            for (int e = 0; e < run; e += 4)
                *reinterpret_cast<float4 *>(
                        own + (i * lanes + lane) * sums_pitch + e)
                        = make_float4(sums[i][e], sums[i][e + 1],
                                sums[i][e + 2], sums[i][e + 3]);
    __syncthreads();
    float *const to = diff_src + n * shape.src_strides[0];
    const int first_w = tile_cell * stride - shape.pad;
    for (int i = 0; i < shape.channels; ++i)
        for (int q = thread; q < shape.segments * run; q += threads) {
            const int w = first_w + q;
            if (w < 0 || w >= shape.src) continue;
            const float *const parts
                    = stages + (i * lanes + q / run) * sums_pitch + q % run;
            float sum = parts[0];
            for (int other = 1; other < ways; ++other)
                sum += parts[other * warp_floats];
            if (!isfinite(sum)) sum = sum_again(shape, image, gathered, i, w);
            to[i * shape.src_strides[1] + w * shape.src_strides[2]] = sum;
        }
}

} // namespace

__global__ void __launch_bounds__(most_threads)
        few_weights_kernel(const float *weights, float *gathered,
                const __grid_constant__ problem_shape shape, int64_t count) {
    const int channels = shape.held_channels;
    const int taps = tap_floats(shape.steps, shape.stride, channels);
    const auto number
            = static_cast<int>(blockIdx.x * most_threads + threadIdx.x);
    wait_and_let_later_work_start();
    if (number >= count) return;
    const int o = number / taps;
    const int place = number - o * taps;
    const int i = place % channels;
    const int k = place / channels;
    gathered[number] = i < shape.channels && k < shape.kernel
            ? weights[o * shape.weights_strides[0]
                    + i * shape.weights_strides[1]
                    + k * shape.weights_strides[2]]
            : 0;
}

data_kernel *data_kernel_of(const problem_shape &shape) {
    const auto kernel = [&]<int steps, int stride, int channels>() {
        return static_cast<data_kernel *>(
                few_data_kernel<steps, stride, channels>);
    };
    const int steps = shape.steps;
    const one_of<4, 3, 1> any {shape.held_channels};
    const one_of<3, 1> few {shape.held_channels};
    switch (shape.stride) {
        case 8:
            return with_chosen(
                    kernel, one_of<2> {}, one_of<8> {}, one_of<1> {});
        case 5: return with_chosen(kernel, one_of<2> {}, one_of<5> {}, few);
        case 4:
            return with_chosen(kernel, one_of<3, 2> {steps}, one_of<4> {}, any);
        case 2:
            return with_chosen(
                    kernel, one_of<4, 3, 2> {steps}, one_of<2> {}, any);
        default:
            return with_chosen(
                    kernel, one_of<3, 5, 7> {steps}, one_of<1> {}, any);
    }
}

} // namespace gradnn::gpu::few_channels
