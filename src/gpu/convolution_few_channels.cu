// Gradient of src with one to four channels, strict f32: of a network's first
// layer.
//
//     diff_src[n,i,x] = sum over o, k with x + pad = y * stride + k of
//                       weights[o,i,k] * diff_dst[n,o,y]
//
// On tensor cores 3 channels fill a fifth of the narrowest tile; plain products
// are faster. Along each axis u = x + pad = v * stride + phase meets the
// positions y = v - t of diff_dst with the taps k = t * stride + phase. A
// thread owns neighbouring columns of diff_src in all channels, `cells`
// neighbouring v along W with all phases, and keeps their sums in registers. A
// block owns some rows; it goes through the output channels, four at a time,
// and of each brings the rows of diff_dst that its rows meet, and the weights,
// to shared memory, two such stages in turns. Of a row a thread reads its cells
// and the taps before them once, 16 bytes at a time, for all its products.
//
// A first launch writes the weights to the workspace, [o][kd][kh][t][phase][i],
// with zeros for taps and channels that are none. Those meet diff_dst all the
// same, so sums that come out infinite or NaN are taken again from the
// definition.
//
// Counted by hand, 7x7 with stride 2 and 3 channels: 192 products of a thread
// for 9 loads from shared memory, so products are the bound.
//
// Each element is one thread's sum: over four output channels after four, of
// those over kd, o, kh and t ascending. The same bits always.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "gpu/async_copy.cuh"
#include "gpu/convolution_operands.hpp"
#include "gpu/early_start.cuh"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"
#include "gpu/rounding.hpp"
#include "text.hpp"

namespace gradnn::gpu {

namespace {

using detail::text;

constexpr int most_threads = 256;
constexpr int outputs_at_once = 4;
/// Of a sum; longer chains of f32 lose digits.
constexpr int64_t longest_chain = 4096;
/// Two blocks fit a multiprocessor.
constexpr size_t most_shared_bytes = 96 * 1024;

struct few_axis {
    int src = 1;
    int dst = 1;
    int kernel = 1;
    int stride = 1;
    int pad = 0;
    int first = 0; ///< the v of the first position of src
};

struct few_shape {
    int channels = 1;
    int outputs = 1;
    few_axis axes[3];
    int64_t src_strides[5] = {};
    int64_t dst_strides[5] = {};
    int64_t weights_strides[5] = {}; ///< o, i, kd, kh, kw
    int segments = 1; ///< threads along a row
    int cell_rows = 1; ///< v along H of a block
    int row_tiles = 1;
    int column_tiles = 1;
    int staged_rows = 1; ///< of diff_dst
    int staged_columns = 1;
    int pitch = 1; ///< floats from row to row of a stage
    int stage_floats = 1; ///< rows, then weights
    bool channels_last = false;
};

/// Where float i of a row lies: the 16 bytes that a quarter of a warp reads,
/// 32 or 64 bytes apart, are in different banks.
__host__ __device__ constexpr int place_of(int i) {
    return i + i / 32 * 4;
}

/// Neighbouring v of a thread, whole 16 bytes: 16 columns where they can be.
__host__ __device__ constexpr int cells_of(int stride) {
    return stride < 4 ? 16 / stride : 4;
}

/// Weights of a window row, whole 16 bytes.
__host__ __device__ constexpr int taps_of(int steps, int stride, int channels) {
    return (steps * stride * channels + 3) / 4 * 4;
}

/// gathered[o][kd][kh][t][phase][i]; `count` floats.
template <int steps, int stride, int channels>
__global__ void __launch_bounds__(most_threads) gather_weights(
        const float *weights, float *gathered,
        const __grid_constant__ few_shape shape, int64_t count) {
    constexpr int taps = taps_of(steps, stride, channels);
    const int64_t number = blockIdx.x * int64_t {most_threads} + threadIdx.x;
    wait_for_earlier_work();
    let_later_work_start();
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

/// One element from the definition. Channel i, position x (D, H, W).
__device__ __noinline__ float sum_again(const few_shape &shape,
        const float *image, const float *weights, int i, int d, int h, int w) {
    float sum = 0;
    const int position[3] = {d, h, w};
    for (int o = 0; o < shape.outputs; ++o)
        for (int kd = 0; kd < shape.axes[0].kernel; ++kd)
            for (int kh = 0; kh < shape.axes[1].kernel; ++kh)
                for (int kw = 0; kw < shape.axes[2].kernel; ++kw) {
                    const int tap[3] = {kd, kh, kw};
                    int64_t from = o * shape.dst_strides[1];
                    bool meets = true;
                    for (int axis = 0; axis < 3; ++axis) {
                        const few_axis &along = shape.axes[axis];
                        const int reached
                                = position[axis] + along.pad - tap[axis];
                        const int y = reached / along.stride;
                        meets = meets && reached >= 0
                                && y * along.stride == reached && y < along.dst;
                        from += y * shape.dst_strides[axis + 2];
                    }
                    if (!meets) continue;
                    sum = __fmaf_rn(weights[o * shape.weights_strides[0]
                                            + i * shape.weights_strides[1]
                                            + kd * shape.weights_strides[2]
                                            + kh * shape.weights_strides[3]
                                            + kw * shape.weights_strides[4]],
                            image[from], sum);
                }
    return sum;
}

template <int steps, int stride, int channels>
__global__ void __launch_bounds__(most_threads, 2) few_channels_kernel(
        const float *diff_dst, const float *gathered, const float *weights,
        float *diff_src, const __grid_constant__ few_shape shape) {
    constexpr int cells = cells_of(stride);
    constexpr int taps = taps_of(steps, stride, channels);
    constexpr int window = (cells + steps - 1 + 3) / 4; // of 16 bytes
    extern __shared__ float4 shared[];
    auto *const stages = reinterpret_cast<float *>(shared);
    const few_axis &deep = shape.axes[0];
    const few_axis &down = shape.axes[1];
    const few_axis &along = shape.axes[2];
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);

    unsigned rest = blockIdx.x;
    const int column_tile = static_cast<int>(rest % shape.column_tiles);
    rest /= shape.column_tiles;
    const int row_tile = static_cast<int>(rest % shape.row_tiles);
    rest /= shape.row_tiles;
    const int depth = static_cast<int>(rest % deep.src);
    const auto n = static_cast<int64_t>(rest / deep.src);
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
    const int chunks = (shape.outputs + outputs_at_once - 1) / outputs_at_once;
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
    const int tile_cell
            = along.first + column_tile * shape.segments * cells;

    const int first_row = tile_v - (down_steps - 1);
    const int first_column = tile_cell - (steps - 1);
    const int row_weights = down.kernel * taps;
    const int64_t all_row_weights = int64_t {deep.kernel} * row_weights;
    const int weights_at = outputs_at_once * shape.staged_rows * shape.pitch;
    wait_for_earlier_work();
    let_later_work_start();

    const auto load = [&](int number, int slot) {
        const int chunk = number / planes;
        const int plane = first_plane + number - chunk * planes;
        const int kd = deep_phase + plane * deep.stride;
        float *const to = stages + slot * shape.stage_floats;
        const float *const from
                = image + (deep_v - plane) * shape.dst_strides[2];
        const auto copy = [&](int o, int r, int c) {
            const int output = chunk * outputs_at_once + o;
            const int y = first_row + r;
            const int x = first_column + c;
            const bool inside = output < shape.outputs && y >= 0
                    && y < down.dst && x >= 0 && x < along.dst;
            const float *place = from;
            if (inside)
                place += output * shape.dst_strides[1]
                        + y * shape.dst_strides[3] + x * shape.dst_strides[4];
            copy_async_or_zero(inside,
                    to + (o * shape.staged_rows + r) * shape.pitch
                            + place_of(c),
                    place);
        };
        const int lane = thread % 32;
        if (shape.channels_last) {
            for (int r = thread / 32; r < shape.staged_rows; r += threads / 32)
                for (int c = lane / outputs_at_once; c < shape.staged_columns;
                        c += 32 / outputs_at_once)
                    copy(lane % outputs_at_once, r, c);
        } else {
            for (int r = thread / 32; r < outputs_at_once * shape.staged_rows;
                    r += threads / 32)
                for (int c = lane; c < shape.staged_columns; c += 32)
                    copy(r / shape.staged_rows, r % shape.staged_rows, c);
        }
        for (int i = thread * 4; i < outputs_at_once * row_weights;
                i += threads * 4) {
            const int o = i / row_weights;
            copy_async<16>(to + weights_at + i,
                    gathered + (chunk * outputs_at_once + o) * all_row_weights
                            + kd * row_weights + (i - o * row_weights));
        }
    };

    float sums[channels][cells][stride] = {};
    // The window's first cells, and the others, which may lie beyond a gap.
    const int near = place_of(segment * cells);
    const int far = place_of(segment * cells + cells) - cells;
    const auto add_stage = [&](int slot) {
        const float *const rows = stages + slot * shape.stage_floats;
        const float *const of_stage = rows + weights_at;
#pragma unroll 1
        for (int o = 0; o < outputs_at_once; ++o) {
#pragma unroll 1
            for (int t = 0; t < row_steps; ++t) {
                const float *const from = rows
                        + (o * shape.staged_rows + cell_row + down_steps - 1
                                  - t)
                                * shape.pitch;
                float values[window * 4];
#pragma unroll
                for (int v = 0; v < window; ++v) {
                    const float4 four = *reinterpret_cast<const float4 *>(
                            from + (v * 4 < cells ? near : far) + v * 4);
                    values[4 * v] = four.x;
                    values[4 * v + 1] = four.y;
                    values[4 * v + 2] = four.z;
                    values[4 * v + 3] = four.w;
                }
                const float *const by = of_stage + o * row_weights
                        + (phase + t * down.stride) * taps;
                float weight[taps];
#pragma unroll
                for (int k = 0; k < taps; k += 4) {
                    const float4 four
                            = *reinterpret_cast<const float4 *>(by + k);
                    weight[k] = four.x;
                    weight[k + 1] = four.y;
                    weight[k + 2] = four.z;
                    weight[k + 3] = four.w;
                }
#pragma unroll
                for (int k = 0; k < steps; ++k)
#pragma unroll
                    for (int s = 0; s < stride; ++s)
#pragma unroll
                        for (int i = 0; i < channels; ++i)
#pragma unroll
                            for (int c = 0; c < cells; ++c)
                                sums[i][c][s] = __fmaf_rn(
                                        weight[(k * stride + s) * channels + i],
                                        values[c + steps - 1 - k],
                                        sums[i][c][s]);
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
                float sum = sums[i][c][s];
                if (!isfinite(sum))
                    sum = sum_again(shape, image, weights, i, depth, h, w);
                to[i * shape.src_strides[1] + w * shape.src_strides[4]] = sum;
            }
    }
}

/// Along the last axis, for which there are kernels; 0 where there are none.
int64_t longest_window(int64_t stride, int64_t channels) {
    switch (stride) {
        case 1: return 7;
        case 2: return 8;
        case 4: return 12;
        case 5: return channels <= 3 ? 10 : 0;
        case 8: return channels == 1 ? 16 : 0;
        default: return 0;
    }
}

/// a / b, rounded down; b is positive.
int floor_div(int a, int b) {
    return a >= 0 ? a / b : -ceil_div(-a, b);
}

class few_channels_plan final : public detail::plan {
public:
    few_channels_plan(const convolution_problem &problem, int device) {
        shape_.channels = static_cast<int>(problem.src.dims[1]);
        shape_.outputs = static_cast<int>(problem.dst.dims[1]);
        std::copy(problem.src.strides.begin(), problem.src.strides.end(),
                shape_.src_strides);
        std::copy(problem.dst.strides.begin(), problem.dst.strides.end(),
                shape_.dst_strides);
        std::copy(problem.weights.strides.begin() + 1,
                problem.weights.strides.end(), shape_.weights_strides);
        for (size_t i = 0; i < 3; ++i) {
            few_axis &axis = shape_.axes[i];
            axis.src = static_cast<int>(problem.src.dims[i + 2]);
            axis.dst = static_cast<int>(problem.dst.dims[i + 2]);
            axis.kernel = static_cast<int>(problem.weights.dims[i + 3]);
            axis.stride = static_cast<int>(problem.strides[i]);
            axis.pad = static_cast<int>(problem.pads_begin[i]);
            axis.first = floor_div(axis.pad, axis.stride);
        }
        shape_.channels_last = shape_.outputs > 1 && shape_.dst_strides[1] == 1;
        const device_guard current(device);
        const capture_mode_guard relaxed; // attributes load the kernel
        with_kernel([&]<int steps, int stride, int channels>() {
            cut(steps, stride, taps_of(steps, stride, channels),
                    problem.src.dims[0]);
            if (!fits()) return;
            check(cudaFuncSetAttribute(
                          few_channels_kernel<steps, stride, channels>,
                          cudaFuncAttributeMaxDynamicSharedMemorySize,
                          static_cast<int>(most_shared_bytes)),
                    "cudaFuncSetAttribute");
        });
    }

    /// False where no block's part fits shared memory, or there are too many.
    bool fits() const { return blocks_ != 0; }

    size_t workspace_bytes() const override {
        return static_cast<size_t>(gathered_) * sizeof(float);
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const auto *const weights = static_cast<const float *>(args[1]);
        auto *const gathered = reinterpret_cast<float *>(workspace);
        with_kernel([&]<int steps, int stride, int channels>() {
            launch_early("convolution.gpu_few_channels (weights)",
                    gather_weights<steps, stride, channels>,
                    static_cast<unsigned>(ceil_div(gathered_, most_threads)),
                    most_threads, 0, scope.stream(), weights, gathered, shape_,
                    gathered_);
            launch_early("convolution.gpu_few_channels",
                    few_channels_kernel<steps, stride, channels>, blocks_,
                    threads_, shared_bytes_, scope.stream(),
                    static_cast<const float *>(args[2]), gathered, weights,
                    static_cast<float *>(args[0]), shape_);
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    template <typename Body>
    void with_kernel(const Body &body) const {
        const few_axis &along = shape_.axes[2];
        const int steps = ceil_div(along.kernel, along.stride);
        switch (along.stride) {
            case 8: return body.template operator()<2, 8, 1>();
            case 5:
                return shape_.channels == 1
                        ? body.template operator()<2, 5, 1>()
                        : body.template operator()<2, 5, 3>();
            case 4:
                return steps <= 2 ? with_channels<2, 4>(body)
                                  : with_channels<3, 4>(body);
            case 2:
                return steps <= 2      ? with_channels<2, 2>(body)
                        : steps == 3 ? with_channels<3, 2>(body)
                                     : with_channels<4, 2>(body);
            default: break;
        }
        steps <= 3           ? with_channels<3, 1>(body)
                : steps <= 5 ? with_channels<5, 1>(body)
                             : with_channels<7, 1>(body);
    }

    template <int steps, int stride, typename Body>
    void with_channels(const Body &body) const {
        if (shape_.channels == 1)
            body.template operator()<steps, stride, 1>();
        else if (shape_.channels <= 3)
            body.template operator()<steps, stride, 3>();
        else
            body.template operator()<steps, stride, 4>();
    }

    /// Long rows rather than many, as many threads as there are, and no more
    /// shared memory than is allowed.
    void cut(int steps, int stride, int taps, int64_t images) {
        const few_axis &down = shape_.axes[1];
        const few_axis &along = shape_.axes[2];
        const int cells = cells_of(stride);
        const auto all_cells_of = [](const few_axis &axis) {
            return floor_div(axis.src - 1 + axis.pad, axis.stride) - axis.first
                    + 1;
        };
        const int all_segments = ceil_div(all_cells_of(along), cells);
        const int all_rows = all_cells_of(down);
        const int most_segments = std::min(
                all_rows > 1 ? 16 : 64, most_threads / down.stride);
        if (most_segments == 0) return;
        shape_.column_tiles = ceil_div(all_segments, most_segments);
        shape_.segments = ceil_div(all_segments, shape_.column_tiles);
        shape_.staged_columns = shape_.segments * cells + steps - 1;
        const int down_steps = ceil_div(down.kernel, down.stride);
        const int threads_of_row = shape_.segments * down.stride;
        int rows = std::min(all_rows, most_threads / threads_of_row);
        for (; rows > 0; --rows) {
            shape_.row_tiles = ceil_div(all_rows, rows);
            shape_.cell_rows = ceil_div(all_rows, shape_.row_tiles);
            shape_.staged_rows = shape_.cell_rows + down_steps - 1;
            // A thread reads whole 16 bytes, past its last cell.
            shape_.pitch = place_of(shape_.staged_columns + 3) / 4 * 4 + 4;
            shape_.stage_floats = outputs_at_once
                    * (shape_.staged_rows * shape_.pitch + down.kernel * taps);
            shared_bytes_ = 2 * sizeof(float)
                    * static_cast<size_t>(shape_.stage_floats);
            if (shared_bytes_ <= most_shared_bytes) break;
        }
        if (rows == 0) return;
        threads_ = static_cast<unsigned>(
                round_up(threads_of_row * shape_.cell_rows, 32));
        gathered_ = round_up(int64_t {shape_.outputs}, outputs_at_once)
                * shape_.axes[0].kernel * down.kernel * taps;
        const int64_t blocks = images * shape_.axes[0].src * shape_.row_tiles
                * shape_.column_tiles;
        if (blocks < INT32_MAX) blocks_ = static_cast<unsigned>(blocks);
    }

    few_shape shape_;
    int64_t gathered_ = 0;
    unsigned threads_ = 0;
    unsigned blocks_ = 0;
    size_t shared_bytes_ = 0;
};

} // namespace

plan_or_refusal make_convolution_few_channels(
        const convolution_problem &problem, const compile_options &options) {
    if (problem.direction != detail::convolution_direction::backward_data
            || problem.src.type != detail::data_type::f32
            || options.fpmath != fpmath_mode::strict)
        return plan_or_refusal::refuse(
                "computes gradients of src in f32 under fpmath_mode strict");
    const auto &kernel = problem.weights.dims;
    if (kernel[0] != 1 || problem.src.dims[1] > 4)
        return plan_or_refusal::refuse(
                "wants one group and at most 4 channels of src");
    for (const int64_t dilation : problem.dilations)
        if (dilation != 1) return plan_or_refusal::refuse("wants no dilation");
    const int64_t stride = problem.strides[2];
    if (kernel[5] > longest_window(stride, problem.src.dims[1]))
        return plan_or_refusal::refuse(
                "wants along the last axis a stride of 1 and a window of at "
                "most 7, or 2 and 8, 4 and 12, of 3 channels 5 and 10, or of "
                "one 8 and 16");
    const int64_t chain = problem.dst.dims[1]
            * ceil_div(kernel[3], problem.strides[0])
            * ceil_div(kernel[4], problem.strides[1])
            * ceil_div(kernel[5], stride);
    if (chain > longest_chain)
        return plan_or_refusal::refuse(text("wants sums of at most ",
                longest_chain, " terms, given ", chain));
    for (size_t axis = 0; axis < 3; ++axis)
        for (const int64_t size : {problem.src.dims[axis + 2],
                     problem.dst.dims[axis + 2], kernel[axis + 3],
                     problem.strides[axis],
                     std::abs(problem.pads_begin[axis])})
            if (size > 1 << 24)
                return plan_or_refusal::refuse("wants axes of at most 2^24");
    const auto device = static_cast<int>(options.device);
    auto plan = std::make_unique<few_channels_plan>(problem, device);
    if (!plan->fits())
        return plan_or_refusal::refuse(
                "wants a window and rows that fit in shared memory");
    const size_t limit = convolution_workspace_limit(device);
    if (plan->workspace_bytes() > limit)
        return plan_or_refusal::refuse(text("its weights want ",
                plan->workspace_bytes(), " bytes of workspace; ", limit,
                " are allowed"));
    return plan_or_refusal(std::move(plan));
}

} // namespace gradnn::gpu
