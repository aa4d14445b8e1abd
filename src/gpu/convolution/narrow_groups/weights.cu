// Groups of few channels, gradient of the weights (README.md). A unit: four channels of
// dst and four of src of one group. A job: a tap of the first two axes and one or three
// along the last one.
//
// Taps of the first two axes that are outside are skipped, positions outside on
// the last are zeros; what comes out infinite or NaN is taken again by the
// second launch (../weights_sum.cuh).
#include "gpu/convolution/narrow_groups/device.cuh"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/device/early_start.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::narrow_groups {

namespace {

template <typename Type, bool planes, int taps, int step>
__global__ void __launch_bounds__(32 * weights_warps,
        weights_blocks(sizeof(Type))) narrow_weights_kernel(const Type *src,
        const Type *dst, sum_of<Type> *partials,
        const __grid_constant__ problem_shape shape,
        const __grid_constant__ weights_parts parts) {
    using column = channel_column<Type, planes>;
    constexpr int span = (run_positions - 1) * step + taps;
    uint32_t rest = blockIdx.x;
    const int tile = take(rest, shape.by_tiles);
    const int job_block = take(rest, parts.job_blocks);
    const uint32_t part = rest;
    const int job
            = job_block * parts.block_jobs + static_cast<int>(threadIdx.x / 32);
    if (job >= parts.jobs) return; // the whole warp
    uint32_t slot = threadIdx.x % 32;
    const int unit = tile * shape.lanes + take(slot, shape.by_lanes);
    const uint32_t slots = 32 / static_cast<uint32_t>(shape.lanes);
    const int first_tap = job % parts.chunks * taps;
    const int tap_down = job / parts.chunks % shape.axes[1].kernel;
    const int tap_deep = job / parts.chunks / shape.axes[1].kernel;
    const auto &[deep, down, along] = shape.axes;
    const int pair = unit / shape.read.chunks;
    const int group = pair / shape.written.chunks;
    src += shape.read.first(group, unit - pair * shape.read.chunks)
            * shape.read_strides[1];
    dst += shape.written.first(group, pair - group * shape.written.chunks)
            * shape.written_strides[1];
    const auto end = static_cast<uint32_t>(
            uint64_t {part + 1} * shape.items / parts.parts);
    uint32_t item
            = static_cast<uint32_t>(uint64_t {part} * shape.items / parts.parts)
            + slot;
    if (unit >= shape.units) item = end;
    // Of one tap the positions of src are as far apart as the stride says.
    const int apart = taps == 1 ? along.stride : 1;
    const int src_pitch
            = apart * static_cast<int>(shape.read_strides[4] * sizeof(Type));
    const auto dst_pitch
            = static_cast<int>(shape.written_strides[4] * sizeof(Type));
    wait_and_let_later_work_start();

    sum_of<Type> total[taps][chunk_channels][chunk_channels] = {};
#pragma unroll 1
    for (; item < end; item += slots) {
        const run_place place = place_of(shape, item);
        const int src_deep = place.deep * deep.stride + deep.base
                + tap_deep * deep.dilation;
        const int src_down = place.down * down.stride + down.base
                + tap_down * down.dilation;
        if (!is_inside(src_deep, deep.read) || !is_inside(src_down, down.read))
            continue;
        const int first = place.along * along.stride + along.base
                + first_tap * along.dilation;
        const typename column::address by(dst
                        + place.image * shape.written_strides[0]
                        + place.deep * shape.written_strides[2]
                        + place.down * shape.written_strides[3]
                        + place.along * shape.written_strides[4],
                shape.written_strides[1]);
        column of_dst[run_positions];
#pragma unroll
        for (int p = 0; p < run_positions; ++p)
            of_dst[p].load(place.along + p < along.written, by, dst_pitch, p);
        const typename column::address from(src
                        + place.image * shape.read_strides[0]
                        + src_deep * shape.read_strides[2]
                        + src_down * shape.read_strides[3]
                        + first * shape.read_strides[4],
                shape.read_strides[1]);
        column of_src[span];
#pragma unroll
        for (int j = 0; j < span; ++j)
            of_src[j].load(is_inside(first + j * apart, along.read), from,
                    src_pitch, j);
#pragma unroll
        for (int j = 0; j < span; ++j) {
            sum_of<Type> values[chunk_channels];
            of_src[j].unpack(values);
#pragma unroll
            for (int p = 0; p < run_positions; ++p) {
                const int e = j - p * step;
                if (e < 0 || e >= taps) continue;
                sum_of<Type> factor[chunk_channels];
                of_dst[p].unpack(factor);
#pragma unroll
                for (int i = 0; i < chunk_channels; ++i)
#pragma unroll
                    for (int o = 0; o < chunk_channels; ++o)
                        total[e][i][o]
                                = fma(values[i], factor[o], total[e][i][o]);
            }
        }
    }

    const auto &numbers = parts.tap_numbers;
    const int tap = tap_deep * numbers[0] + tap_down * numbers[1]
            + first_tap * numbers[2];
    const int read_chunk = unit - pair * shape.read.chunks;
    const int written_chunk = pair - group * shape.written.chunks;
    sum_of<Type> *const to = partials + part * parts.weights
            + int64_t {group} * shape.written.of_group;
#pragma unroll
    for (int e = 0; e < taps; ++e)
#pragma unroll
        for (int i = 0; i < chunk_channels; ++i) {
            const int input = shape.read.number(group, read_chunk, i);
#pragma unroll
            for (int o = 0; o < chunk_channels; ++o) {
                sum_of<Type> sum = total[e][i][o];
                for (int distance = 16; distance >= shape.lanes; distance /= 2)
                    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
                const int output
                        = shape.written.number(group, written_chunk, o);
                if (slot == 0 && unit < shape.units && input >= 0 && output >= 0
                        && first_tap + e < along.kernel)
                    to[(int64_t {input} * parts.window + tap + e * numbers[2])
                                    * parts.channels
                            + output]
                            = sum;
            }
        }
}

} // namespace

launcher weights_launcher(const detail::convolution_problem &problem,
        const problem_shape &shape, const weights_parts &parts) {
    const launcher add
            = weights_sum_launcher("convolution.gpu_narrow_groups (parts)",
                    problem, parts.parts, true);
    const int64_t blocks
            = int64_t {parts.parts} * parts.job_blocks * shape.unit_tiles;
    return with_float_type(problem.src.type, [&]<typename Type>() -> launcher {
        const auto of_layout = [&]<bool planes>() {
            if (parts.taps != 3)
                return narrow_weights_kernel<Type, planes, 1, 1>;
            return shape.axes[2].stride == 1
                    ? narrow_weights_kernel<Type, planes, 3, 1>
                    : narrow_weights_kernel<Type, planes, 3, 2>;
        };
        auto *const kernel = shape.planes
                ? of_layout.template operator()<true>()
                : of_layout.template operator()<false>();
        return [=](const tensor_pointers &at, const launch_stream &stream) {
            launch_early("convolution.gpu_narrow_groups", kernel, blocks,
                    32 * parts.block_jobs, 0, stream, at.src, at.dst,
                    at.workspace, shape, parts);
            add(at, stream);
        };
    });
}

} // namespace gradnn::gpu::narrow_groups
