// The kernels of convolution.gpu_direct; direct.cu says which runs when.
#pragma once

#include <cstdint>

#include "gpu/device/dtype.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/device/warp.cuh"

namespace gradnn::gpu::direct {

constexpr int threads = 256;

struct problem_shape {
    int64_t src_dims[5] = {};
    int64_t src_strides[5] = {};
    int64_t dst_dims[5] = {};
    int64_t dst_strides[5] = {};
    int64_t weights_dims[6] = {};
    int64_t weights_strides[6] = {};
    int64_t strides[3] = {};
    int64_t dilations[3] = {};
    int64_t pads[3] = {};
    // Of the written tensor, innermost first (forward and backward_data).
    int order[5] = {};
    int64_t count = 1;
};

/// Position `number` of the written tensor, logical axes N, C, D, H, W.
__device__ inline void locate(const problem_shape &shape,
        const int64_t (&dims)[5], int64_t number, int64_t (&position)[5]) {
    const bool small = shape.count < INT32_MAX;
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        int64_t at = 0;
        const int64_t dim = dims[shape.order[i]];
        if (small) {
            at = static_cast<uint32_t>(number) % static_cast<uint32_t>(dim);
            number = static_cast<uint32_t>(number) / static_cast<uint32_t>(dim);
        } else {
            at = number % dim;
            number /= dim;
        }
#pragma unroll
        for (int axis = 0; axis < 5; ++axis)
            if (shape.order[i] == axis) position[axis] = at;
    }
}

/// The i from `first`, below `end` and `most`, with 0 <= start + i * step < length.
struct range {
    int64_t first;
    int64_t end;
};

__device__ inline range steps_inside(
        int64_t start, int64_t step, int64_t length, int64_t most) {
    const int64_t left = length - start;
    return {start < 0 ? (-start - 1) / step + 1 : 0,
            left <= 0 ? 0 : min(most, (left - 1) / step + 1)};
}

/// The taps k = first, first + step, ... < end of one axis that reach inside,
/// and the position that `first` reads; each further tap reads `move` on.
struct axis_taps {
    int64_t first = 0;
    int64_t end = 0;
    int64_t step = 1;
    int64_t from = 0;
    int64_t move = 0;
};

__device__ inline axis_taps forward_taps(
        const problem_shape &shape, int axis, int64_t y) {
    const int64_t dilation = shape.dilations[axis];
    const int64_t start = y * shape.strides[axis] - shape.pads[axis];
    const range inside = steps_inside(start, dilation, shape.src_dims[axis + 2],
            shape.weights_dims[axis + 3]);
    return {inside.first, inside.end, 1, start + inside.first * dilation,
            dilation};
}

__device__ inline axis_taps backward_taps(
        const problem_shape &shape, int axis, int64_t z) {
    // y = (z + pad - k * dilation) / stride where that is whole: solutions k
    // follow each other every stride / gcd(stride, dilation).
    axis_taps taps;
    const int64_t stride = shape.strides[axis];
    const int64_t dilation = shape.dilations[axis];
    const int64_t start = z + shape.pads[axis];
    const int64_t last = (shape.dst_dims[axis + 2] - 1) * stride;
    const range inside = steps_inside(
            last - start, dilation, last + 1, shape.weights_dims[axis + 3]);
    taps.first = inside.first;
    taps.end = inside.end;
    while (taps.first < taps.end
            && (start - taps.first * dilation) % stride != 0)
        ++taps.first;
    if (taps.first >= taps.end) return taps;
    int64_t a = stride;
    int64_t b = dilation;
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    taps.step = stride / a;
    taps.from = (start - taps.first * dilation) / stride;
    taps.move = -taps.step * dilation / stride;
    return taps;
}

/// A sum of a few thousand terms.
template <typename Sum>
class plain_sum {
public:
    __device__ void add(Sum value) { total_ += value; }
    __device__ void add(const plain_sum &other) { total_ += other.total_; }
    __device__ Sum value() const { return total_; }

private:
    Sum total_ = 0;
};

template <typename Type, bool forward, template <typename> typename Total>
__global__ void __launch_bounds__(threads)
        gather_kernel(const Type *read, const Type *weights, Type *written,
                const __grid_constant__ problem_shape shape) {
    using total_type = Total<sum_of<Type>>;
    const auto &written_dims = forward ? shape.dst_dims : shape.src_dims;
    const auto &written_strides
            = forward ? shape.dst_strides : shape.src_strides;
    const auto &read_strides = forward ? shape.src_strides : shape.dst_strides;
    const int64_t own = shape.weights_dims[forward ? 1 : 2];
    const int64_t other = shape.weights_dims[forward ? 2 : 1];
    const int64_t own_stride = shape.weights_strides[forward ? 1 : 2];
    const int64_t other_stride = shape.weights_strides[forward ? 2 : 1];
    const auto grid_step = static_cast<int64_t>(gridDim.x) * threads;
    for (int64_t number = blockIdx.x * int64_t(threads) + threadIdx.x;
            number < shape.count; number += grid_step) {
        int64_t position[5];
        locate(shape, written_dims, number, position);
        axis_taps taps[3];
        int64_t written_at = 0;
        int64_t read_at = position[0] * read_strides[0];
        int64_t weights_at = 0;
#pragma unroll
        for (int axis = 0; axis < 5; ++axis)
            written_at += position[axis] * written_strides[axis];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            taps[axis] = forward
                    ? forward_taps(shape, axis, position[axis + 2])
                    : backward_taps(shape, axis, position[axis + 2]);
            read_at += taps[axis].from * read_strides[axis + 2];
            weights_at += taps[axis].first * shape.weights_strides[axis + 3];
        }
        const int64_t group = position[1] / own;
        weights_at += group * shape.weights_strides[0]
                + position[1] % own * own_stride;
        read_at += group * other * read_strides[1];
        total_type total;
        for (int64_t channel = 0; channel < other; ++channel) {
            total_type of_taps;
            const Type *r_d = read + read_at + channel * read_strides[1];
            const Type *w_d = weights + weights_at + channel * other_stride;
            for (int64_t d = taps[0].first; d < taps[0].end;
                    d += taps[0].step) {
                const Type *r_h = r_d;
                const Type *w_h = w_d;
                for (int64_t h = taps[1].first; h < taps[1].end;
                        h += taps[1].step) {
                    const Type *r = r_h;
                    const Type *w = w_h;
                    for (int64_t x = taps[2].first; x < taps[2].end;
                            x += taps[2].step) {
                        of_taps.add(widen(*r) * widen(*w));
                        r += taps[2].move * read_strides[4];
                        w += taps[2].step * shape.weights_strides[5];
                    }
                    r_h += taps[1].move * read_strides[3];
                    w_h += taps[1].step * shape.weights_strides[4];
                }
                r_d += taps[0].move * read_strides[2];
                w_d += taps[0].step * shape.weights_strides[3];
            }
            total.add(of_taps);
        }
        written[written_at] = narrow<Type>(total.value());
    }
}

/// partials[weight][part]; block (weight, part).
template <typename Type>
__global__ void __launch_bounds__(threads)
        weights_kernel(const Type *src, const Type *dst, sum_of<Type> *partials,
                const __grid_constant__ problem_shape shape, int64_t parts,
                int64_t units) {
    using sum = sum_of<Type>;
    __shared__ sum warp_sums[threads / 32];
    const auto thread = static_cast<int>(threadIdx.x);
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        int64_t rest = unit / parts;
        const int64_t part = unit % parts;
        int64_t k[3];
#pragma unroll
        for (int axis = 2; axis >= 0; --axis) {
            k[axis] = rest % shape.weights_dims[axis + 3];
            rest /= shape.weights_dims[axis + 3];
        }
        const int64_t i = rest % shape.weights_dims[2];
        rest /= shape.weights_dims[2];
        const int64_t o = rest % shape.weights_dims[1];
        const int64_t group = rest / shape.weights_dims[1];
        const Type *s = src
                + (group * shape.weights_dims[2] + i) * shape.src_strides[1];
        const Type *d = dst
                + (group * shape.weights_dims[1] + o) * shape.dst_strides[1];
        int64_t counts[3]; // positions of dst
        int64_t pixels = shape.src_dims[0];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            const int64_t start
                    = k[axis] * shape.dilations[axis] - shape.pads[axis];
            const range inside = steps_inside(start, shape.strides[axis],
                    shape.src_dims[axis + 2], shape.dst_dims[axis + 2]);
            counts[axis] = max(inside.end - inside.first, int64_t {0});
            pixels *= counts[axis];
            s += (start + inside.first * shape.strides[axis])
                    * shape.src_strides[axis + 2];
            d += inside.first * shape.dst_strides[axis + 2];
        }
        const int64_t begin = part * pixels / parts;
        const int64_t end = (part + 1) * pixels / parts;
        const bool small = pixels < INT32_MAX;
        sum total = 0;
        for (int64_t pixel = begin + thread; pixel < end; pixel += threads) {
            int64_t at = pixel;
            int64_t s_at = 0;
            int64_t d_at = 0;
#pragma unroll
            for (int axis = 2; axis >= 0; --axis) {
                int64_t y = 0;
                if (small) {
                    y = static_cast<uint32_t>(at)
                            % static_cast<uint32_t>(counts[axis]);
                    at = static_cast<uint32_t>(at)
                            / static_cast<uint32_t>(counts[axis]);
                } else {
                    y = at % counts[axis];
                    at /= counts[axis];
                }
                s_at += y * shape.strides[axis] * shape.src_strides[axis + 2];
                d_at += y * shape.dst_strides[axis + 2];
            }
            s_at += at * shape.src_strides[0];
            d_at += at * shape.dst_strides[0];
            total += widen(s[s_at]) * widen(d[d_at]);
        }
        total = sum_of_warp(total);
        if (thread % 32 == 0) warp_sums[thread / 32] = total;
        __syncthreads();
        if (thread == 0) {
            total = 0;
            for (const sum of_warp : warp_sums)
                total += of_warp;
            partials[unit] = total;
        }
        __syncthreads();
    }
}

/// weights[...] = sum of its parts, in order and in f64: f32 sums of parts that
/// are alike drift. A thread each.
template <typename Sum, typename Result>
__global__ void __launch_bounds__(threads) parts_kernel(const Sum *partials,
        Result *weights, const __grid_constant__ problem_shape shape,
        int64_t parts, int64_t count) {
    const int64_t number = blockIdx.x * int64_t(threads) + threadIdx.x;
    if (number >= count) return;
    double total = 0;
    for (int64_t part = 0; part < parts; ++part)
        total += static_cast<double>(partials[number * parts + part]);
    int64_t rest = number;
    int64_t at = 0;
#pragma unroll
    for (int axis = 5; axis >= 0; --axis) {
        at += rest % shape.weights_dims[axis] * shape.weights_strides[axis];
        rest /= shape.weights_dims[axis];
    }
    weights[at] = narrow<Result>(total);
}

} // namespace gradnn::gpu::direct
