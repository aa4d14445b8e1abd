// The kernels of convolution.gpu_direct; direct.cu says which runs when.
#pragma once

#include <cstdint>

#include "gpu/convolution/direct/shape.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/device/positions.cuh"

namespace gradnn::gpu::direct {

/// The i from `first`, below `end`, with 0 <= start + i * step < length and i < most.
template <typename Index>
struct range {
    Index first;
    Index end;
};

template <typename Index>
__device__ range<Index> steps_inside(
        Index start, const divisor<Index> &step, Index length, Index most) {
    const Index left = length - start;
    return {start < 0 ? step.quotient(-start - 1) + 1 : 0,
            left <= 0 ? 0 : min(most, step.quotient(left - 1) + 1)};
}

/// Of position y of dst.
template <typename Index>
__device__ axis_taps<Index> forward_taps(
        const window_axis<Index> &axis, Index y) {
    const Index start = y * axis.stride.by - axis.pad;
    const auto inside
            = steps_inside(start, axis.dilation, axis.src, axis.window);
    if (inside.first >= inside.end) return {};
    return {(start + inside.first * axis.dilation.by) * axis.src_stride,
            inside.first * axis.weights_stride, inside.end - inside.first};
}

/// Of position z of src.
template <typename Index>
__device__ axis_taps<Index> backward_taps(
        const window_axis<Index> &axis, Index z) {
    // y = (z + pad - k * dilation) / stride where that is whole.
    const Index start = z + axis.pad;
    const Index last = (axis.dst - 1) * axis.stride.by;
    const auto inside
            = steps_inside(last - start, axis.dilation, last + 1, axis.window);
    for (Index k = inside.first; k < inside.end; ++k) {
        const Index at = start - k * axis.dilation.by; // not negative
        const Index y = axis.stride.quotient(at);
        if (y * axis.stride.by == at)
            return {y * axis.dst_stride, k * axis.weights_stride,
                    (inside.end - 1 - k) / axis.tap_step + 1};
    }
    return {};
}

/// A thread has an element of `together` images, which share taps and weights.
template <typename Type, bool forward, template <typename> typename Total,
        int together, typename Index>
__global__ void __launch_bounds__(threads)
        gather_kernel(const Type *read, const Type *weights, Type *written,
                const __grid_constant__ problem_shape<Index> shape) {
    using total_type = Total<sum_of<Type>>;
    extern __shared__ double direct_shared[];
    auto *const table = reinterpret_cast<axis_taps<Index> *>(direct_shared);
    const auto taps_of = [&](int i, Index position) {
        return forward ? forward_taps(shape.axes[i], position)
                       : backward_taps(shape.axes[i], position);
    };
    for (auto entry = static_cast<int>(threadIdx.x); entry < shape.table;
            entry += threads) {
        int i = 2;
        while (entry < shape.axes[i].table)
            --i;
        table[entry] = taps_of(i, entry - shape.axes[i].table);
    }
    __syncthreads();
    const auto &own = forward ? shape.outputs : shape.inputs;
    const Index other = forward ? shape.inputs.by : shape.outputs.by;
    const auto &read_strides = forward ? shape.src_strides : shape.dst_strides;
    const auto &written_strides
            = forward ? shape.dst_strides : shape.src_strides;
    const Index own_stride = shape.weights_strides[forward ? 1 : 2];
    const Index other_stride = shape.weights_strides[forward ? 2 : 1];
    const auto grid_step = static_cast<int64_t>(gridDim.x) * threads;
    for (int64_t number = blockIdx.x * int64_t(threads) + threadIdx.x;
            number < shape.count; number += grid_step) {
        const auto position_of = [&](int axis) {
            const Index index
                    = shape.inner[axis].quotient(static_cast<Index>(number));
            return index
                    - shape.dims[axis].quotient(index) * shape.dims[axis].by;
        };
        const Index image = position_of(0) * together;
        const Index last = min(shape.images - image, Index {together}) - 1;
        const Index channel = position_of(1);
        const Index group = own.quotient(channel);
        Index written_at
                = image * written_strides[0] + channel * written_strides[1];
        Index read_at
                = image * read_strides[0] + group * other * read_strides[1];
        Index weights_at = group * shape.weights_strides[0]
                + (channel - group * own.by) * own_stride;
        Index counts[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const auto &axis = shape.axes[i];
            const Index position = position_of(2 + i);
            const auto taps = shape.table > 0 ? table[axis.table + position]
                                              : taps_of(i, position);
            written_at
                    += position * (forward ? axis.dst_stride : axis.src_stride);
            read_at += taps.read;
            weights_at += taps.weights;
            counts[i] = taps.count;
        }
        const Type *of_image[together]; // those beyond the last are read as it
#pragma unroll
        for (int n = 0; n < together; ++n)
            of_image[n] = read + min(Index {n}, last) * read_strides[0];
        total_type totals[together];
        for (Index from = 0; from < other; ++from) {
            total_type of_taps[together];
            Index r_d = read_at + from * read_strides[1];
            Index w_d = weights_at + from * other_stride;
            for (Index d = counts[0]; d > 0; --d) {
                Index r_h = r_d;
                Index w_h = w_d;
                for (Index h = counts[1]; h > 0; --h) {
                    Index r = r_h;
                    Index w = w_h;
#pragma unroll(together == 1 ? 4 : 1)
                    for (Index x = counts[2]; x > 0; --x) {
                        const auto weight = widen(weights[w]);
#pragma unroll
                        for (int n = 0; n < together; ++n)
                            of_taps[n].add(widen(of_image[n][r]) * weight);
                        r += shape.axes[2].read_move;
                        w += shape.axes[2].weights_move;
                    }
                    r_h += shape.axes[1].read_move;
                    w_h += shape.axes[1].weights_move;
                }
                r_d += shape.axes[0].read_move;
                w_d += shape.axes[0].weights_move;
            }
#pragma unroll
            for (int n = 0; n < together; ++n)
                totals[n].add(of_taps[n]);
        }
#pragma unroll
        for (int n = 0; n < together; ++n)
            if (n <= last)
                written[written_at + n * written_strides[0]]
                        = narrow<Type>(totals[n].value());
    }
}

/// partials[part][channel of src in its group][tap][channel of dst]. Blocks along x have some
/// neighbouring taps along W, up to `at_once`, of a tile of channels, along y parts. A thread has
/// every n-th run: positions of dst one after the other along an axis or the images, each of which
/// is read once for all these taps. It has `each` neighbouring channels; sums are as by one.
template <typename Type, int at_once, int each, typename Index>
__global__ void __launch_bounds__(threads / each)
        weights_kernel(const Type *src, const Type *dst, sum_of<Type> *partials,
                const __grid_constant__ problem_shape<Index> shape,
                const __grid_constant__ weights_cut cut) {
    using sum = sum_of<Type>;
    // By moves in a thread's own registers addresses take fewer instructions than by those that
    // threads have in common, but in f32 alone.
    constexpr bool in_common = each == 1 && std::is_same_v<Type, float>;
    extern __shared__ double direct_shared[];
    auto *const shares = reinterpret_cast<sum *>(direct_shared);
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread * each % cut.lanes;
    const int row = thread * each / cut.lanes;
    const int rows = threads / cut.lanes;
    const auto run = static_cast<Index>(cut.run);
    const auto parts = static_cast<Index>(cut.parts);
    const auto &along_w = shape.axes[2];
    const Index tap_move = along_w.dilation.by * along_w.src_stride;
    for (auto tile = static_cast<Index>(blockIdx.x); tile < cut.tiles;
            tile += gridDim.x) {
        Index rest = tile;
        const Index first_tap = take(rest, Index {cut.tap_groups}) * cut.taps_w;
        const Index taps = min(Index {cut.taps_w}, along_w.window - first_tap);
        const Index start_w = first_tap * along_w.dilation.by - along_w.pad;
        Index input = take(rest, static_cast<Index>(cut.tap_rows));
        const Index first_number = input * along_w.window + first_tap;
        const Index first_channel = rest * cut.lanes;
        const Index channel = first_channel + lane;
        const bool is_one = channel < cut.channels;
        const Index group = is_one ? shape.outputs.quotient(channel) : 0;
        // Positions of dst that the taps meet, W, H, D and the images, in runs along one of them.
        Index counts[4], src_moves[4], dst_moves[4], runs = is_one ? 1 : 0;
        Index of_axis = 0, src_move = 0, dst_move = 0;
        const Type *s = src + int64_t {start_w} * along_w.src_stride;
        const Type *d = dst + int64_t {channel} * shape.dst_strides[1];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const auto &axis = shape.axes[n < 3 ? 2 - n : 0];
            range<Index> inside {0, n < 3 ? axis.dst : shape.images};
            src_moves[n] = n < 3 ? axis.stride.by * axis.src_stride
                                 : shape.src_strides[0];
            dst_moves[n] = n < 3 ? axis.dst_stride : shape.dst_strides[0];
            if (n == 1 || n == 2) {
                const Index start = take(input, axis.window) * axis.dilation.by
                        - axis.pad;
                inside = steps_inside(start, axis.stride, axis.src, axis.dst);
                s += int64_t {start} * axis.src_stride;
            }
            s += int64_t {inside.first} * src_moves[n];
            d += int64_t {inside.first} * dst_moves[n];
            counts[n] = max(inside.end - inside.first, Index {0});
            if (n == cut.along) {
                of_axis = counts[n];
                src_move = in_common || is_one ? src_moves[n] : 0;
                dst_move = in_common || is_one ? dst_moves[n] : 0;
                counts[n] = ceil_div(of_axis, run);
            }
            runs *= counts[n];
        }
        s += int64_t {group * shape.inputs.by + input} * shape.src_strides[1];
        const Index of_part = ceil_div(runs, parts);
        for (auto part = static_cast<Index>(blockIdx.y); part < parts;
                part += gridDim.y) {
            sum totals[at_once][each] = {};
            const Index end = min(runs, (part + 1) * of_part);
            for (Index number = part * of_part + row; number < end;
                    number += rows) {
                Index left = number;
                Index length = 0;
                bool inside[at_once];
                const Type *from_src = s;
                const Type *from_dst = d;
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    Index at = counts[n] > 1 ? take(left, counts[n]) : 0;
                    if (n == cut.along) {
                        at *= run;
                        length = min(run, of_axis - at);
                    }
                    from_src += int64_t {at} * src_moves[n];
                    from_dst += int64_t {at} * dst_moves[n];
                    const auto is_met = [&](int tap) {
                        const Index place = at * along_w.stride.by + start_w
                                + tap * along_w.dilation.by;
                        return place >= 0 && place < along_w.src;
                    };
#pragma unroll
                    for (int t = 0; t < at_once && n == 0; ++t)
                        inside[t] = t < taps && is_met(t);
                }
                // A place for each tap, which additions alone move.
                const Type *of_tap[at_once];
#pragma unroll
                for (int t = 0; t < at_once; ++t)
                    of_tap[t] = from_src + int64_t {t} * tap_move;
#pragma unroll(at_once == few_taps ? 4 : 2 / each)
                for (; length > 0; --length, from_dst += dst_move) {
                    sum values[each], others[each];
                    pack<Type, each>::load(from_dst).unpack(values);
#pragma unroll
                    for (int t = 0; t < at_once; ++t) {
                        if (inside[t]) {
                            pack<Type, each>::load(of_tap[t]).unpack(others);
#pragma unroll
                            for (int c = 0; c < each; ++c)
                                totals[t][c] += values[c] * others[c];
                        }
                        of_tap[t] += src_move;
                    }
                }
            }
#pragma unroll
            for (int t = 0; t < at_once * each; ++t)
                shares[t / each * threads + thread * each + t % each]
                        = totals[t / each][t % each];
            __syncthreads();
            // A warp for each tap adds up the rows of lanes.
            const int of_warp = thread % 32;
#pragma unroll
            for (int first = 0; first < at_once; first += threads / each / 32) {
                const int t = first + thread / 32;
                if (t >= taps) break;
                const sum *const of_tap = shares + t * threads;
                sum total = 0;
                for (int i = of_warp; i < threads; i += 32)
                    total += of_tap[i];
                for (int half = 16; half >= cut.lanes; half /= 2)
                    total += __shfl_down_sync(~0U, total, half);
                const Index of_lane = first_channel + of_warp;
                if (of_warp < cut.lanes && of_lane < cut.channels)
                    partials[part * shape.count
                            + int64_t {first_number + t} * cut.channels
                            + of_lane]
                            = total;
            }
            __syncthreads();
        }
    }
}

} // namespace gradnn::gpu::direct
