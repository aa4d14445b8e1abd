// Groups of few channels, forward and gradient of src (README.md).
//
// A first launch writes the weights to the workspace as f32 (of f64 as they
// are), in the order in which threads take them: [tile of units][taps of the
// first two axes][chunk of 4 channels read][tap along the last axis][channel
// read][unit][channel written]. Of gradients of src with strides a thread has
// positions of one phase. Threads of NXC read the weights side by side, those of
// planes one address of them.
//
// Taps of the first two axes that are outside are skipped, positions outside on the last
// are zeros, and sums that come out NaN are taken again from the definition.
#include "gpu/convolution/narrow_groups/device.cuh"
#include "gpu/device/early_start.cuh"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"

namespace gradnn::gpu::narrow_groups {

namespace {

constexpr int gather_threads = 256;

template <typename Type, bool planes>
__global__ void __launch_bounds__(gather_threads)
        narrow_gather_kernel(const Type *weights, sum_of<Type> *gathered,
                const __grid_constant__ problem_shape shape, int64_t count) {
    const int64_t number = blockIdx.x * int64_t {gather_threads} + threadIdx.x;
    wait_and_let_later_work_start();
    if (number >= count) return;
    auto rest = static_cast<uint32_t>(number);
    const int o = take(rest, chunk_channels);
    const int lane = take(rest, weights_unit_lanes(planes));
    const int i = take(rest, chunk_channels);
    int tap[3];
    tap[2] = take(rest, shape.axes[2].kernel);
    const int chunk = take(rest, shape.read.chunks);
    tap[1] = take(rest, shape.axes[1].kernel);
    tap[0] = take(rest, shape.axes[0].kernel);
    const int unit = static_cast<int>(rest) * shape.lanes + lane;
    sum_of<Type> value = 0;
    if (lane < shape.lanes && unit < shape.units) {
        const int group = unit / shape.written.chunks;
        const int channel
                = (unit - group * shape.written.chunks) * chunk_channels + o;
        const int of_read = shape.read.number(group, chunk, i);
        int64_t from = group * shape.weights_strides[0]
                + channel * shape.weights_strides[1]
                + of_read * shape.weights_strides[2];
        for (int axis = 0; axis < 3; ++axis)
            from += (shape.to_src ? shape.axes[axis].kernel - 1 - tap[axis]
                                  : tap[axis])
                    * shape.weights_strides[3 + axis];
        if (of_read >= 0 && channel < shape.written.of_group)
            value = widen(weights[from]);
    }
    gathered[number] = value;
}

/// One element from the definition: channel `o` of a unit.
template <typename Type>
__device__ __noinline__ sum_of<Type> sum_again(const Type *read,
        const Type *weights, const problem_shape &shape, const run_place &place,
        int along, int unit, int o) {
    const int group = unit / shape.written.chunks;
    const int channels = shape.read.of_group;
    const axis_taps of[3]
            = {taps_inside(shape.axes[0], shape.to_src, place.deep),
                    taps_inside(shape.axes[1], shape.to_src, place.down),
                    taps_inside(shape.axes[2], shape.to_src, along)};
    read += place.image * shape.read_strides[0]
            + int64_t {group} * shape.read.pitch * shape.read_strides[1];
    weights += group * shape.weights_strides[0]
            + ((unit - group * shape.written.chunks) * chunk_channels + o)
                    * shape.weights_strides[1];
    sum_of<Type> sum = 0;
    for (int a = 0; a < of[0].count; ++a)
        for (int b = 0; b < of[1].count; ++b)
            for (int c = 0; c < of[2].count; ++c) {
                const int number[3] = {a, b, c};
                int64_t at = 0;
                int64_t by = 0;
                for (int i = 0; i < 3; ++i) {
                    const window_axis &axis = shape.axes[i];
                    const int tap = of[i].first + number[i] * axis.tap_step;
                    at += (of[i].from + number[i] * axis.move)
                            * shape.read_strides[2 + i];
                    by += (shape.to_src ? axis.kernel - 1 - tap : tap)
                            * shape.weights_strides[3 + i];
                }
                for (int i = 0; i < channels; ++i)
                    sum = fma(widen(read[at + i * shape.read_strides[1]]),
                            widen(weights[by + i * shape.weights_strides[2]]),
                            sum);
            }
    return sum;
}

template <typename Type, bool planes>
__global__ void __launch_bounds__(data_threads(sizeof(Type)), 2)
        narrow_data_kernel(const Type *read, const sum_of<Type> *gathered,
                const Type *weights, Type *written,
                const __grid_constant__ problem_shape shape) {
    using sum = sum_of<Type>;
    using column = channel_column<Type, planes>;
    constexpr int threads = data_threads(sizeof(Type));
    constexpr int weights_lanes = weights_unit_lanes(planes);
    constexpr int tap_weights = chunk_channels * weights_lanes * chunk_channels;
    uint32_t rest = blockIdx.x;
    const int tile = take(rest, shape.by_tiles);
    uint32_t slot = threadIdx.x;
    const int lane = take(slot, shape.by_lanes);
    const int unit = tile * shape.lanes + lane;
    const uint32_t item
            = rest * (threads / static_cast<uint32_t>(shape.lanes)) + slot;
    if (item >= shape.items || unit >= shape.units) return;
    const run_place place = place_of(shape, item);
    const window_axis &along = shape.axes[2];
    const int group = unit / shape.written.chunks;
    const axis_taps of_deep
            = taps_inside(shape.axes[0], shape.to_src, place.deep);
    const axis_taps of_down
            = taps_inside(shape.axes[1], shape.to_src, place.down);
    const axis_taps of_along = taps_of(along, shape.to_src, place.along);
    const bool slides = shape.run_move == 1 && along.move == 1;
    const Type *const from_group = read + place.image * shape.read_strides[0]
            + shape.read.first(group, 0) * shape.read_strides[1];
    const sum *const by_unit = gathered
            + int64_t {tile} * shape.axes[0].kernel * shape.axes[1].kernel
                    * shape.read.chunks * along.kernel * tap_weights
            + lane * chunk_channels;
    const int64_t apart = shape.read_strides[1];
    const int64_t stride = shape.read_strides[4];
    wait_and_let_later_work_start();

    sum total[run_positions][chunk_channels] = {};
    // Taps tap, tap + tap_step, ...; the first one of the thread's first
    // position reads `at` of the row `from`. `step` lies between positions.
    const auto add_taps = [&]<int taps>(const Type *from, const sum *by,
                                  int tap, int at, int step) {
        constexpr int span = run_positions + taps - 1;
        column columns[span];
        const typename column::address first(from + at * stride, apart);
        const int pitch = step * static_cast<int>(stride * sizeof(Type));
#pragma unroll
        for (int j = 0; j < span; ++j)
            columns[j].load(
                    is_inside(at + j * step, along.read), first, pitch, j);
        const sum *with = by + tap * tap_weights;
        const int next = along.tap_step * tap_weights;
#pragma unroll
        for (int e = 0; e < taps; ++e) {
            sum factor[chunk_channels][chunk_channels];
#pragma unroll
            for (int i = 0; i < chunk_channels; ++i)
                load_values<chunk_channels>(
                        factor[i], with + i * weights_lanes * chunk_channels);
            with += next;
#pragma unroll
            for (int p = 0; p < run_positions; ++p) {
                sum values[chunk_channels];
                columns[p + e].unpack(values);
#pragma unroll
                for (int i = 0; i < chunk_channels; ++i)
#pragma unroll
                    for (int o = 0; o < chunk_channels; ++o)
                        total[p][o] = fma(values[i], factor[i][o], total[p][o]);
            }
        }
    };
#pragma unroll 1
    for (int a = 0; a < of_deep.count; ++a)
#pragma unroll 1
        for (int b = 0; b < of_down.count; ++b) {
            const int tap_a = of_deep.first + a * shape.axes[0].tap_step;
            const int tap_b = of_down.first + b * shape.axes[1].tap_step;
            const Type *from = from_group
                    + (of_deep.from + a * shape.axes[0].move)
                            * shape.read_strides[2]
                    + (of_down.from + b * shape.axes[1].move)
                            * shape.read_strides[3];
            const sum *by = by_unit
                    + int64_t {tap_a * shape.axes[1].kernel + tap_b}
                            * shape.read.chunks * along.kernel * tap_weights;
#pragma unroll 1
            for (int chunk = 0; chunk < shape.read.chunks; ++chunk) {
                int tap = of_along.first;
                int at = of_along.from;
                int left = of_along.count;
                if (slides) {
#pragma unroll 1
                    for (; left >= 3; left -= 3) {
                        add_taps.template operator()<3>(from, by, tap, at, 1);
                        tap += 3 * along.tap_step;
                        at += 3;
                    }
                    if (left == 2) {
                        add_taps.template operator()<2>(from, by, tap, at, 1);
                        left = 0;
                    }
                }
#pragma unroll 1
                for (; left > 0; --left) {
                    add_taps.template operator()<1>(
                            from, by, tap, at, shape.run_move);
                    tap += along.tap_step;
                    at += along.move;
                }
                from += (shape.read.first(group, chunk + 1)
                                - shape.read.first(group, chunk))
                        * apart;
                by += along.kernel * tap_weights;
            }
        }

    sum of_all = 0; // infinite or NaN if one of them is
    const int64_t to_apart = shape.written_strides[1];
    const int to_chunk = (unit - group * shape.written.chunks) * chunk_channels;
    const int to_count = min(shape.written.of_group - to_chunk, chunk_channels);
    const int64_t to_stride = shape.run_step * shape.written_strides[4];
    Type *const first_to = written + place.image * shape.written_strides[0]
            + (group * shape.written.pitch + to_chunk) * to_apart
            + place.deep * shape.written_strides[2]
            + place.down * shape.written_strides[3]
            + place.along * shape.written_strides[4];
    Type *to = first_to;
#pragma unroll
    for (int p = 0; p < run_positions; ++p) {
        if (place.along + p * shape.run_step < along.written)
            column::stream(to, to_apart, total[p], to_count);
        to += to_stride;
#pragma unroll
        for (int o = 0; o < chunk_channels; ++o)
            of_all += total[p][o];
    }
    if (is_finite(of_all)) return;
#pragma unroll 1
    for (int p = 0; p < run_positions; ++p) {
        const int x = place.along + p * shape.run_step;
        if (x >= along.written) return;
#pragma unroll 1
        for (int o = 0; o < to_count; ++o) {
            Type &element = first_to[p * to_stride + o * to_apart];
            // Those that are not NaN stay: their bits may not depend on what
            // else the thread has.
            const sum value = widen(element);
            if (value != value)
                element = narrow<Type>(
                        sum_again(read, weights, shape, place, x, unit, o));
        }
    }
}

} // namespace

launcher data_launcher(const detail::convolution_problem &problem,
        const problem_shape &shape) {
    return with_float_type(problem.src.type, [&]<typename Type>() -> launcher {
        auto *const gather = shape.planes ? narrow_gather_kernel<Type, true>
                                          : narrow_gather_kernel<Type, false>;
        auto *const kernel = shape.planes ? narrow_data_kernel<Type, true>
                                          : narrow_data_kernel<Type, false>;
        constexpr int threads = data_threads(sizeof(Type));
        const int64_t count = gathered_weights(shape);
        const uint32_t slots = threads / static_cast<uint32_t>(shape.lanes);
        const int64_t blocks
                = int64_t {ceil_div(shape.items, slots)} * shape.unit_tiles;
        return [=](const tensor_pointers &at, const launch_stream &stream) {
            launch_early("convolution.gpu_narrow_groups (weights)", gather,
                    ceil_div(count, gather_threads), gather_threads, 0, stream,
                    at.weights, at.workspace, shape, count);
            launch_early("convolution.gpu_narrow_groups", kernel, blocks,
                    threads, 0, stream, at.read(shape.to_src), at.workspace,
                    at.weights, at.written(shape.to_src), shape);
        };
    });
}

} // namespace gradnn::gpu::narrow_groups
