// Gradient of src with one to four channels: tiles, and the weights of both
// kernels. See few_channels.cpp.
//
// A thread owns neighbouring columns of diff_src in all channels, `cells`
// neighbouring v along W with all phases, and keeps their sums in registers. A
// block owns some rows; it goes through the output channels, four at a time,
// and of each brings the rows of diff_dst that its rows meet, and the weights,
// to shared memory, which holds two such stages: one is filled while the other
// is used. Of a row a thread reads its cells and the taps before them once, 16
// bytes at a time, for all its products.
//
// Each element is one thread's sum: over four output channels after four, of
// those over kd, o, kh and t ascending. The same bits always.
#include "gpu/convolution/few_channels/device.cuh"
#include "gpu/device/async_copy.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::few_channels {

namespace {

/// gathered[o][kd][kh][t][phase][i]; `count` floats.
template <int steps, int stride, int channels>
__global__ void __launch_bounds__(tile_threads)
        few_weights_kernel(const float *weights, float *gathered,
                const __grid_constant__ problem_shape shape, int64_t count) {
    constexpr int taps = tap_floats(steps, stride, channels);
    const int64_t number = blockIdx.x * int64_t {tile_threads} + threadIdx.x;
    wait_and_let_later_work_start();
    if (number >= count) return;
    const int place = static_cast<int>(number % taps);
    int64_t row = number / taps;
    const int kh = static_cast<int>(row % shape.axes[1].kernel);
    row /= shape.axes[1].kernel;
    const int kd = static_cast<int>(row % shape.axes[0].kernel);
    const int64_t o = row / shape.axes[0].kernel;
    const int i = place % channels;
    const int kw = place / channels;
    float value = 0;
    if (o < shape.outputs && i < shape.channels && kw < shape.axes[2].kernel)
        value = weights[o * shape.weights_strides[0]
                + i * shape.weights_strides[1] + kd * shape.weights_strides[2]
                + kh * shape.weights_strides[3]
                + kw * shape.weights_strides[4]];
    gathered[number] = value;
}

template <int steps, int stride, int channels>
__global__ void __launch_bounds__(tile_threads, 2) few_tile_kernel(
        const float *diff_dst, const float *gathered, const float *weights,
        float *diff_src, const __grid_constant__ problem_shape shape) {
    constexpr int cells = tile_cells(stride);
    constexpr int taps = tap_floats(steps, stride, channels);
    extern __shared__ float4 shared[];
    auto *const stages = reinterpret_cast<float *>(shared);
    const auto &[deep, down, along] = shape.axes;
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    unsigned rest = blockIdx.x;
    const int column_tile = take(rest, shape.column_tiles);
    const int row_tile = take(rest, shape.row_tiles);
    const int depth = take(rest, deep.src);
    const auto n = static_cast<int64_t>(rest);
    const float *const image = diff_dst + n * shape.dst_strides[0];

    // The planes of diff_dst that the depth meets.
    const int deep_u = depth + deep.pad;
    const int deep_v = deep_u >= 0 ? deep_u / deep.stride : -1;
    const int deep_phase = deep_u - deep_v * deep.stride;
    const int first_plane = max(0, deep_v - (deep.dst - 1));
    const int planes = deep_u < 0 || deep_phase >= deep.kernel
            ? 0
            : min((deep.kernel - 1 - deep_phase) / deep.stride, deep_v)
                    - first_plane + 1;
    const int chunks = (shape.outputs + tile_outputs - 1) / tile_outputs;
    const int all_stages = max(planes, 0) * chunks;

    // Threads of a warp have rows of one phase, whose taps are the same.
    const int segment = thread % shape.segments;
    const int row = thread / shape.segments;
    const int phase = row / shape.cell_rows;
    const int cell_row = row - phase * shape.cell_rows;
    const bool computes = phase < down.stride;
    const int tile_v = down.first + row_tile * shape.cell_rows;
    const int row_steps = phase < down.kernel
            ? (down.kernel - 1 - phase) / down.stride + 1
            : 0;
    const int down_steps = (down.kernel - 1) / down.stride + 1;
    const int tile_cell = along.first + column_tile * shape.segments * cells;

    const int first_row = tile_v - (down_steps - 1);
    const int first_column = tile_cell - (steps - 1);
    const int row_weights = down.kernel * taps;
    const int64_t all_row_weights = int64_t {deep.kernel} * row_weights;
    const int weights_at = tile_outputs * shape.staged_rows * shape.pitch;
    wait_and_let_later_work_start();

    const auto load = [&](int number, int slot) {
        const int chunk = number / planes;
        const int plane = first_plane + number - chunk * planes;
        const int kd = deep_phase + plane * deep.stride;
        float *const to = stages + slot * shape.stage_floats;
        const float *const from
                = image + (deep_v - plane) * shape.dst_strides[2];
        const auto copy = [&](int o, int r, int c) {
            const int output = chunk * tile_outputs + o;
            const int y = first_row + r;
            const int x = first_column + c;
            const bool inside = output < shape.outputs && y >= 0 && y < down.dst
                    && x >= 0 && x < along.dst;
            const float *place = from;
            if (inside)
                place += output * shape.dst_strides[1]
                        + y * shape.dst_strides[3] + x * shape.dst_strides[4];
            copy_async_or_zero<4>(inside,
                    to + (o * shape.staged_rows + r) * shape.pitch
                            + staged_place(c),
                    place);
        };
        const int lane = thread % 32;
        if (shape.channels_last) {
            for (int r = thread / 32; r < shape.staged_rows; r += threads / 32)
                for (int c = lane / tile_outputs; c < shape.staged_columns;
                        c += 32 / tile_outputs)
                    copy(lane % tile_outputs, r, c);
        } else {
            for (int r = thread / 32; r < tile_outputs * shape.staged_rows;
                    r += threads / 32)
                for (int c = lane; c < shape.staged_columns; c += 32)
                    copy(r / shape.staged_rows, r % shape.staged_rows, c);
        }
        for (int i = thread * 4; i < tile_outputs * row_weights;
                i += threads * 4) {
            const int o = i / row_weights;
            copy_async<16>(to + weights_at + i,
                    gathered + (chunk * tile_outputs + o) * all_row_weights
                            + int64_t {kd} * row_weights
                            + (i - o * row_weights));
        }
    };

    float sums[channels][cells * stride] = {}; // cells, phases
    const int near = staged_place(segment * cells);
    const int far = staged_place(segment * cells + cells) - cells;
    const auto add_stage = [&](int slot) {
        const float *const rows = stages + slot * shape.stage_floats;
        const float *const of_stage = rows + weights_at;
#pragma unroll 1
        for (int o = 0; o < tile_outputs; ++o) {
#pragma unroll 1
            for (int t = 0; t < row_steps; ++t) {
                const float *const from = rows
                        + (o * shape.staged_rows + cell_row + down_steps - 1
                                  - t)
                                * shape.pitch;
                add_row<steps, stride, channels, cells>(sums, from, near, far,
                        of_stage + o * row_weights
                                + (phase + t * down.stride) * taps);
            }
        }
    };
    if (all_stages > 0) load(0, 0);
    commit_copies();
#pragma unroll 1
    for (int number = 0; number < all_stages; ++number) {
        if (number + 1 < all_stages) load(number + 1, (number + 1) % 2);
        commit_copies();
        wait_for_copies<1>();
        __syncthreads();
        if (computes) add_stage(number % 2);
        __syncthreads(); // the slot has been read
    }
    wait_for_copies<0>();

    const int h = (tile_v + cell_row) * down.stride + phase - down.pad;
    if (!computes || h < 0 || h >= down.src) return;
    float *const to = diff_src + n * shape.src_strides[0]
            + depth * shape.src_strides[2] + h * shape.src_strides[3];
#pragma unroll
    for (int i = 0; i < channels; ++i) {
        if (i >= shape.channels) break;
#pragma unroll
        for (int c = 0; c < cells; ++c)
#pragma unroll
            for (int s = 0; s < stride; ++s) {
                const int w = (tile_cell + segment * cells + c) * stride + s
                        - along.pad;
                if (w < 0 || w >= along.src) continue;
                float sum = sums[i][c * stride + s];
                if (!isfinite(sum))
                    sum = sum_again(shape, image, weights, i, depth, h, w);
                to[i * shape.src_strides[1] + w * shape.src_strides[4]] = sum;
            }
    }
}

} // namespace

gather_kernel *gather_kernel_of(const problem_shape &shape) {
    return with_constants(shape, [&]<int steps, int stride, int channels>() {
        return static_cast<gather_kernel *>(
                few_weights_kernel<steps, stride, channels>);
    });
}

data_kernel *tile_kernel_of(const problem_shape &shape) {
    return with_constants(shape, [&]<int steps, int stride, int channels>() {
        return static_cast<data_kernel *>(
                few_tile_kernel<steps, stride, channels>);
    });
}

} // namespace gradnn::gpu::few_channels
