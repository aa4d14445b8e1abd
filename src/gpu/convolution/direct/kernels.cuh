// The kernels of convolution.gpu_direct; direct.cu says which runs when.
#pragma once

#include <cstdint>

#include "gpu/convolution/direct/shape.hpp"
#include "gpu/device/dtype.cuh"
#include "gpu/device/long_sum.cuh"

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

template <typename Type, bool forward, template <typename> typename Total,
        typename Index>
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
        const Index image = position_of(0);
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
        total_type total;
        for (Index from = 0; from < other; ++from) {
            total_type of_taps;
            Index r_d = read_at + from * read_strides[1];
            Index w_d = weights_at + from * other_stride;
            for (Index d = counts[0]; d > 0; --d) {
                Index r_h = r_d;
                Index w_h = w_d;
                for (Index h = counts[1]; h > 0; --h) {
                    Index r = r_h;
                    Index w = w_h;
                    for (Index x = counts[2]; x > 0; --x) {
                        of_taps.add(widen(read[r]) * widen(weights[w]));
                        r += shape.axes[2].read_move;
                        w += shape.axes[2].weights_move;
                    }
                    r_h += shape.axes[1].read_move;
                    w_h += shape.axes[1].weights_move;
                }
                r_d += shape.axes[0].read_move;
                w_d += shape.axes[0].weights_move;
            }
            total.add(of_taps);
        }
        written[written_at] = narrow<Type>(total.value());
    }
}

/// The positions of dst that one tap meets, the axes W, H, D and the images one after
/// the other, from one of a thread to its next: by additions alone.
template <typename Index>
class pixel_walk {
public:
    /// `counts` of W, H and D; a step is so many pixels.
    __device__ pixel_walk(const problem_shape<Index> &shape,
            const Index (&counts)[3], Index pixel, Index step) {
        Index ahead = step;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const auto &axis = shape.axes[2 - i];
            const Index src_stride = axis.stride.by * axis.src_stride;
            const Index at = pixel % counts[i];
            pixel /= counts[i];
            at_[i] = at;
            count_[i] = counts[i];
            step_[i] = ahead % counts[i];
            ahead /= counts[i];
            src += at * src_stride;
            dst += at * axis.dst_stride;
            src_step_ += step_[i] * src_stride;
            dst_step_ += step_[i] * axis.dst_stride;
            // Beyond the axis' end: back to its begin, and one further outside.
            const bool outermost = i == 2;
            const auto &outer = shape.axes[outermost ? 0 : 1 - i];
            src_carry_[i] = (outermost ? shape.src_strides[0]
                                       : outer.stride.by * outer.src_stride)
                    - counts[i] * src_stride;
            dst_carry_[i]
                    = (outermost ? shape.dst_strides[0] : outer.dst_stride)
                    - counts[i] * axis.dst_stride;
        }
        src += pixel * shape.src_strides[0];
        dst += pixel * shape.dst_strides[0];
        src_step_ += ahead * shape.src_strides[0];
        dst_step_ += ahead * shape.dst_strides[0];
    }

    __device__ void advance() {
        src += src_step_;
        dst += dst_step_;
        Index carry = 0;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            at_[i] += step_[i] + carry;
            carry = at_[i] >= count_[i] ? 1 : 0;
            if (carry == 0) continue;
            at_[i] -= count_[i];
            src += src_carry_[i];
            dst += dst_carry_[i];
        }
    }

    Index src = 0, dst = 0; ///< offsets of the pixel

private:
    Index at_[3], count_[3], step_[3];
    Index src_step_ = 0, dst_step_ = 0;
    Index src_carry_[3], dst_carry_[3];
};

/// partials[part][channel of src in its group][tap][channel of dst]. Blocks along x
/// have a tap and a tile of channels each, along y parts.
template <typename Type, typename Index>
__global__ void __launch_bounds__(threads)
        weights_kernel(const Type *src, const Type *dst, sum_of<Type> *partials,
                const __grid_constant__ problem_shape<Index> shape,
                const __grid_constant__ weights_cut cut) {
    using sum = sum_of<Type>;
    extern __shared__ double direct_shared[];
    auto *const shares = reinterpret_cast<sum *>(direct_shared);
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % cut.lanes;
    const int row = thread / cut.lanes;
    const int rows = threads / cut.lanes;
    const auto parts = static_cast<Index>(cut.parts);
    for (auto tile = static_cast<Index>(blockIdx.x);
            tile < cut.taps * cut.channel_tiles; tile += gridDim.x) {
        Index rest = tile;
        Index tap[3];
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            tap[axis] = rest % shape.axes[axis].window;
            rest /= shape.axes[axis].window;
        }
        const Index i = rest % shape.inputs.by;
        const Index channel = rest / shape.inputs.by * cut.lanes + lane;
        const bool is_one = channel < cut.channels;
        Index counts[3]; // positions of dst that the tap meets, along W, H, D
        Index pixels = is_one ? shape.images : 0;
        const Index group = is_one ? shape.outputs.quotient(channel) : 0;
        const Type *s = src
                + int64_t {group * shape.inputs.by + i} * shape.src_strides[1];
        const Type *d = dst + int64_t {channel} * shape.dst_strides[1];
#pragma unroll
        for (int n = 0; n < 3; ++n) {
            const auto &axis = shape.axes[2 - n];
            const Index start = tap[2 - n] * axis.dilation.by - axis.pad;
            const auto inside
                    = steps_inside(start, axis.stride, axis.src, axis.dst);
            counts[n] = max(inside.end - inside.first, Index {0});
            pixels *= counts[n];
            s += int64_t {start + inside.first * axis.stride.by}
                    * axis.src_stride;
            d += int64_t {inside.first} * axis.dst_stride;
        }
        const Index of_part = ceil_div(pixels, parts);
        for (auto part = static_cast<Index>(blockIdx.y); part < parts;
                part += gridDim.y) {
            const Index begin = part * of_part + row;
            const Index end = min(pixels, (part + 1) * of_part);
            sum total = 0;
            if (begin < end) {
                pixel_walk<Index> walk(shape, counts, begin, rows);
#pragma unroll 4
                for (Index left = (end - begin - 1) / rows + 1; left > 0;
                        --left) {
                    total += widen(s[walk.src]) * widen(d[walk.dst]);
                    walk.advance();
                }
            }
            shares[thread] = total;
            __syncthreads();
            for (int half = threads / 2; half >= cut.lanes; half /= 2) {
                if (thread < half) shares[thread] += shares[thread + half];
                __syncthreads();
            }
            if (row == 0 && is_one)
                partials[part * shape.count
                        + int64_t {tile % static_cast<Index>(cut.taps)}
                                * cut.channels
                        + channel]
                        = shares[thread];
            __syncthreads();
        }
    }
}

} // namespace gradnn::gpu::direct
