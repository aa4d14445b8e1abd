// Groups of few channels, gradient of the weights.
//
//     diff_weights[o,i,k] = sum over n, y of dst[n,o,y]
//                           * src[n,i,y*stride-pad+k*dilation]
//
// A thread has four channels of dst and four of src of one group (a unit), a
// tap of the first two axes and one or three along the last one (a job), whose
// sums stay in registers. It goes over runs of 8 neighbouring positions of dst,
// along W of NXC, along H of planes: it loads them, and of src each position
// that they meet, once. Neighbouring threads of NXC have neighbouring units, of
// planes neighbouring columns; the warps of a block have jobs of the same runs,
// which they find in L1. In the end a warp adds up its threads of one unit, and
// writes one partial sum for each of its weights; a second launch adds those
// up, in f64.
//
// Taps of the first two axes that are outside are skipped, positions outside on
// the last are zeros; what comes out infinite or NaN is taken again by the
// second launch.
//
// Counted in the machine code, a run's 384 products take 571 instructions in
// f32 NXC, 700 in NCX, 620 and 805 in bf16, 733 and 809 in f64. The runs of a
// part, and the parts, follow from the problem and the number of
// multiprocessors: the same bits always.
#include "gpu/convolution/narrow_groups/device.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::narrow_groups {

namespace {

/// The second launch: neighbouring weights by threads that share them.
constexpr int sum_lanes = 32;
constexpr int sum_rows = 16;

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
        if (static_cast<unsigned>(src_deep) >= static_cast<unsigned>(deep.read)
                || static_cast<unsigned>(src_down)
                        >= static_cast<unsigned>(down.read))
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
            of_src[j].load(static_cast<unsigned>(first + j * apart)
                            < static_cast<unsigned>(along.read),
                    from, src_pitch, j);
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

    constexpr int sums = taps * chunk_channels * chunk_channels;
    sum_of<Type> *const to = partials + part * parts.sums()
            + int64_t {job} * sums * parts.padded_units + unit;
#pragma unroll
    for (int e = 0; e < taps; ++e)
#pragma unroll
        for (int i = 0; i < chunk_channels; ++i)
#pragma unroll
            for (int o = 0; o < chunk_channels; ++o) {
                sum_of<Type> sum = total[e][i][o];
                for (int distance = 16; distance >= shape.lanes; distance /= 2)
                    sum += __shfl_xor_sync(0xffffffffU, sum, distance);
                if (slot == 0)
                    to[int64_t {(e * chunk_channels + i) * chunk_channels + o}
                            * parts.padded_units]
                            = sum;
            }
}

/// A weight, by the number that its sums have in a part.
struct weight_place {
    bool is_one = false;
    int group = 0;
    int o = 0; ///< of the group
    int i = 0;
    int tap[3] = {};
};

__device__ __forceinline__ weight_place weight_of(const problem_shape &shape,
        const weights_parts &parts, int64_t number) {
    weight_place weight;
    const auto unit = static_cast<int>(number % parts.padded_units);
    auto rest = static_cast<int>(number / parts.padded_units);
    const int o = take(rest, chunk_channels);
    const int i = take(rest, chunk_channels);
    const int e = take(rest, parts.taps);
    weight.tap[2] = take(rest, parts.chunks) * parts.taps + e;
    weight.tap[1] = take(rest, shape.axes[1].kernel);
    weight.tap[0] = rest;
    const int pair = unit / shape.read.chunks;
    const int group = pair / shape.written.chunks;
    weight.group = group;
    weight.o = shape.written.number(
            group, pair - group * shape.written.chunks, o);
    weight.i = shape.read.number(group, unit - pair * shape.read.chunks, i);
    weight.is_one = unit < shape.units && rest < shape.axes[0].kernel
            && weight.tap[2] < shape.axes[2].kernel && weight.o >= 0
            && weight.i >= 0;
    return weight;
}

/// Of a weight's sum, taken from the definition, the share of one of `sum_rows`
/// threads.
template <typename Type>
__device__ double sum_again(const Type *src, const Type *dst,
        const problem_shape &shape, const weight_place &weight, int share) {
    double sum = 0;
    src += (int64_t {weight.group} * shape.read.pitch + weight.i)
            * shape.read_strides[1];
    dst += (int64_t {weight.group} * shape.written.pitch + weight.o)
            * shape.written_strides[1];
    const auto rows = static_cast<uint32_t>(shape.items);
    for (uint32_t item = static_cast<uint32_t>(share); item < rows;
            item += sum_rows) {
        const run_place place = place_of(shape, item);
        const int first[3] = {place.deep, place.down, place.along};
        int64_t from = place.image * shape.read_strides[0];
        int64_t by = place.image * shape.written_strides[0];
        bool meets = true;
        int at = 0;
        for (int axis = 0; axis < 3; ++axis) {
            const window_axis &of = shape.axes[axis];
            at = first[axis] * of.stride + of.base
                    + weight.tap[axis] * of.dilation;
            if (axis < 2) meets = meets && at >= 0 && at < of.read;
            from += at * shape.read_strides[2 + axis];
            by += first[axis] * shape.written_strides[2 + axis];
        }
        if (!meets) continue;
        const window_axis &along = shape.axes[2];
        for (int p = 0; p < run_positions; ++p) {
            const int x = at + p * along.stride;
            if (place.along + p >= along.written || x < 0 || x >= along.read)
                continue;
            sum += static_cast<double>(widen(src[from
                           + p * along.stride * shape.read_strides[4]]))
                    * static_cast<double>(
                            widen(dst[by + p * shape.written_strides[4]]));
        }
    }
    return sum;
}

/// What the threads of one weight have, added up.
__device__ __forceinline__ double sum_of_rows(
        double (&shares)[sum_rows][sum_lanes], double share) {
    __syncthreads();
    shares[threadIdx.y][threadIdx.x] = share;
    __syncthreads();
    double sum = 0;
#pragma unroll
    for (int row = 0; row < sum_rows; ++row)
        sum += shares[row][threadIdx.x];
    return sum;
}

template <typename Type, typename Result>
__global__ void __launch_bounds__(sum_lanes *sum_rows) narrow_sum_kernel(
        const sum_of<Type> *partials, const Type *src, const Type *dst,
        Result *diff_weights, const __grid_constant__ problem_shape shape,
        const __grid_constant__ weights_parts parts) {
    __shared__ double shares[sum_rows][sum_lanes];
    const int64_t number = blockIdx.x * int64_t {sum_lanes} + threadIdx.x;
    const int64_t sums = parts.sums();
    wait_and_let_later_work_start();
    double share = 0;
    weight_place weight;
    if (number < sums) {
        weight = weight_of(shape, parts, number);
        // Lanes of no unit have left zeros.
#pragma unroll 8
        for (uint32_t part = threadIdx.y; part < parts.parts; part += sum_rows)
            share += static_cast<double>(partials[part * sums + number]);
    }
    double sum = sum_of_rows(shares, share);
    const bool again = weight.is_one && !is_finite(sum);
    if (__syncthreads_or(again ? 1 : 0) != 0) {
        share = 0;
        if (again)
            share = sum_again(
                    src, dst, shape, weight, static_cast<int>(threadIdx.y));
        const double other = sum_of_rows(shares, share);
        if (again) sum = other;
    }
    if (threadIdx.y != 0 || !weight.is_one) return;
    diff_weights[weight.group * shape.weights_strides[0]
            + weight.o * shape.weights_strides[1]
            + weight.i * shape.weights_strides[2]
            + weight.tap[0] * shape.weights_strides[3]
            + weight.tap[1] * shape.weights_strides[4]
            + weight.tap[2] * shape.weights_strides[5]]
            = narrow<Result>(sum);
}

/// The two launches, of the parts' sums and of their sum.
template <typename Type, typename Result>
launcher weights_launcher(
        const problem_shape &shape, const weights_parts &parts) {
    const auto of_layout = [&]<bool planes>() {
        if (parts.taps != 3) return narrow_weights_kernel<Type, planes, 1, 1>;
        return shape.axes[2].stride == 1
                ? narrow_weights_kernel<Type, planes, 3, 1>
                : narrow_weights_kernel<Type, planes, 3, 2>;
    };
    auto *const kernel = shape.planes ? of_layout.template operator()<true>()
                                      : of_layout.template operator()<false>();
    const int64_t blocks
            = int64_t {parts.parts} * parts.job_blocks * shape.unit_tiles;
    return [=](const tensor_pointers &at, const launch_stream &stream) {
        launch_early("convolution.gpu_narrow_groups", kernel, blocks,
                32 * parts.block_jobs, 0, stream, at.src, at.dst, at.workspace,
                shape, parts);
        launch_early("convolution.gpu_narrow_groups (parts)",
                narrow_sum_kernel<Type, Result>,
                ceil_div(parts.sums(), sum_lanes), dim3(sum_lanes, sum_rows), 0,
                stream, at.workspace, at.src, at.dst, at.weights, shape, parts);
    };
}

} // namespace

launcher weights_launcher(const detail::convolution_problem &problem,
        const problem_shape &shape, const weights_parts &parts) {
    return with_float_type(problem.src.type, [&]<typename Type>() {
        if constexpr (sizeof(Type) == 2)
            if (problem.weights.type == detail::data_type::f32)
                return weights_launcher<Type, float>(shape, parts);
        return weights_launcher<Type, Type>(shape, parts);
    });
}

} // namespace gradnn::gpu::narrow_groups
