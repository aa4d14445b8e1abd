// Convolution, all directions, straight from the definition: the kernel that
// takes everything.
//
// forward:          dst[n,o,y] = sum i,k of src[n,i,z] * weights[o,i,k]
// backward_data:    src[n,i,z] = sum o,k of dst[n,o,y] * weights[o,i,k]
// backward_weights: weights[o,i,k] = sum n,y of src[n,i,z] * dst[n,o,y]
// where z = y * stride - pad + k * dilation on every axis and lies inside src.
//
// forward and backward_data: a thread computes one element, neighbouring
// threads neighbours along its tensor's smallest stride. Sums over the taps of
// one channel are added to the sum over channels, which keeps f32 sums over
// thousands of products as exact as two short ones; where one of the two is too
// long for that, all is added up in f64, of f64 data compensated (device/long_sum.cuh).
// backward_weights: a block sums one weight over one part of the images, a second
// launch adds the parts.
// Every sum has one order, given by the shape: the same bits on every run.
#include <algorithm>
#include <array>
#include <cstdint>

#include "gpu/device/dtype.cuh"
#include "gpu/device/long_sum.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"

namespace gradnn::gpu {

namespace {

using detail::convolution_direction;

constexpr int threads = 256;

struct convolution_shape {
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
__device__ inline void locate(const convolution_shape &shape,
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
        const convolution_shape &shape, int axis, int64_t y) {
    axis_taps taps;
    const int64_t dilation = shape.dilations[axis];
    const int64_t start = y * shape.strides[axis] - shape.pads[axis];
    const int64_t inside = shape.src_dims[axis + 2] - start;
    taps.first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    taps.end = inside <= 0 ? 0
                           : min(shape.weights_dims[axis + 3],
                                   (inside + dilation - 1) / dilation);
    taps.from = start + taps.first * dilation;
    taps.move = dilation;
    return taps;
}

__device__ inline axis_taps backward_taps(
        const convolution_shape &shape, int axis, int64_t z) {
    // y = (z + pad - k * dilation) / stride where that is whole: solutions k
    // follow each other every stride / gcd(stride, dilation).
    axis_taps taps;
    const int64_t stride = shape.strides[axis];
    const int64_t dilation = shape.dilations[axis];
    const int64_t start = z + shape.pads[axis];
    const int64_t last_y = shape.dst_dims[axis + 2] - 1;
    const int64_t beyond = start - last_y * stride;
    taps.end = start < 0
            ? 0
            : min(shape.weights_dims[axis + 3], start / dilation + 1);
    taps.first = beyond > 0 ? (beyond + dilation - 1) / dilation : 0;
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
                const __grid_constant__ convolution_shape shape) {
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

/// The range of y with 0 <= y * stride - pad + k * dilation < src.
struct range {
    int64_t first = 0;
    int64_t count = 0;
};

__device__ inline range outputs_of_tap(
        const convolution_shape &shape, int axis, int64_t k) {
    const int64_t stride = shape.strides[axis];
    const int64_t start = k * shape.dilations[axis] - shape.pads[axis];
    const int64_t inside = shape.src_dims[axis + 2] - start;
    range found;
    found.first = start < 0 ? (-start + stride - 1) / stride : 0;
    const int64_t end = inside <= 0
            ? 0
            : min(shape.dst_dims[axis + 2], (inside + stride - 1) / stride);
    found.count = max(end - found.first, static_cast<int64_t>(0));
    return found;
}

/// partials[weight][part]; block (weight, part).
template <typename Type>
__global__ void __launch_bounds__(threads)
        weights_kernel(const Type *src, const Type *dst, sum_of<Type> *partials,
                const __grid_constant__ convolution_shape shape, int64_t parts,
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
        range outputs[3];
        int64_t pixels = shape.src_dims[0];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            outputs[axis] = outputs_of_tap(shape, axis, k[axis]);
            pixels *= outputs[axis].count;
            s += (outputs[axis].first * shape.strides[axis] - shape.pads[axis]
                         + k[axis] * shape.dilations[axis])
                    * shape.src_strides[axis + 2];
            d += outputs[axis].first * shape.dst_strides[axis + 2];
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
                            % static_cast<uint32_t>(outputs[axis].count);
                    at = static_cast<uint32_t>(at)
                            / static_cast<uint32_t>(outputs[axis].count);
                } else {
                    y = at % outputs[axis].count;
                    at /= outputs[axis].count;
                }
                s_at += y * shape.strides[axis] * shape.src_strides[axis + 2];
                d_at += y * shape.dst_strides[axis + 2];
            }
            s_at += at * shape.src_strides[0];
            d_at += at * shape.dst_strides[0];
            total += widen(s[s_at]) * widen(d[d_at]);
        }
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            total += __shfl_down_sync(0xffffffffU, total, distance);
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
        Result *weights, const __grid_constant__ convolution_shape shape,
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

class direct_plan final : public detail::plan {
public:
    direct_plan(const convolution_problem &problem, int device)
        : direction_(problem.direction),
          type_(problem.src.type),
          weights_type_(problem.weights.type) {
        for (size_t i = 0; i < 5; ++i) {
            shape_.src_dims[i] = problem.src.dims[i];
            shape_.src_strides[i] = problem.src.strides[i];
            shape_.dst_dims[i] = problem.dst.dims[i];
            shape_.dst_strides[i] = problem.dst.strides[i];
        }
        for (size_t i = 0; i < 6; ++i) {
            shape_.weights_dims[i] = problem.weights.dims[i];
            shape_.weights_strides[i] = problem.weights.strides[i];
        }
        for (size_t i = 0; i < 3; ++i) {
            shape_.strides[i] = problem.strides[i];
            shape_.dilations[i] = problem.dilations[i];
            shape_.pads[i] = problem.pads_begin[i];
        }
        if (direction_ == convolution_direction::backward_weights)
            plan_weights(device);
        else
            plan_gather();
    }

    size_t workspace_bytes() const override {
        if (direction_ != convolution_direction::backward_weights) return 0;
        const size_t bytes = type_ == detail::data_type::f64 ? 8 : 4;
        return static_cast<size_t>(shape_.count * parts_) * bytes;
    }

    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        with_float_type(type_, [&]<typename Type>() {
            auto *src = static_cast<Type *>(args[0]);
            auto *weights = static_cast<Type *>(args[1]);
            auto *dst = static_cast<Type *>(args[2]);
            switch (direction_) {
                case convolution_direction::forward:
                    gather<Type, true>(src, weights, dst, scope.stream());
                    break;
                case convolution_direction::backward_data:
                    gather<Type, false>(dst, weights, src, scope.stream());
                    break;
                case convolution_direction::backward_weights:
                    if (weights_type_ == type_)
                        sum_weights(
                                src, dst, weights, workspace, scope.stream());
                    else
                        sum_weights(src, dst, static_cast<float *>(args[1]),
                                workspace, scope.stream());
                    break;
            }
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    void plan_gather() {
        const bool forward = direction_ == convolution_direction::forward;
        const auto &dims = forward ? shape_.dst_dims : shape_.src_dims;
        const auto &strides = forward ? shape_.dst_strides : shape_.src_strides;
        std::array<int, 5> order {4, 3, 2, 1, 0};
        std::stable_sort(order.begin(), order.end(),
                [&](int a, int b) { return strides[a] < strides[b]; });
        std::copy(order.begin(), order.end(), shape_.order);
        for (const int64_t dim : dims)
            shape_.count *= dim;
    }

    void plan_weights(int device) {
        for (const int64_t dim : shape_.weights_dims)
            shape_.count *= dim;
        const int64_t pixels = shape_.dst_dims[0] * shape_.dst_dims[2]
                * shape_.dst_dims[3] * shape_.dst_dims[4];
        // Enough blocks to fill the device, with at least 16 products a thread
        // and at most 2048: longer f32 sums lose digits.
        const int64_t blocks
                = int64_t {properties_of(device).multiprocessors} * 16;
        const int64_t least = std::max<int64_t>(
                1, ceil_div(pixels, int64_t {threads} * 2048));
        parts_ = std::clamp<int64_t>(ceil_div(blocks, shape_.count), least,
                ceil_div(pixels, int64_t {threads} * 16));
    }

    /// Whether a sum over the taps of a channel, or over channels, is longer
    /// than plain sums should be.
    bool long_sums(bool forward) const {
        constexpr int64_t most = 2048;
        int64_t taps = 1; // at most `most` times what an axis of memory holds
        for (int axis = 3; axis < 6; ++axis)
            if (taps <= most) taps *= shape_.weights_dims[axis];
        return taps > most || shape_.weights_dims[forward ? 2 : 1] > most;
    }

    template <typename Type, bool forward>
    void gather(const Type *read, const Type *weights, Type *written,
            cudaStream_t stream) const {
        const auto blocks = static_cast<unsigned>(
                std::min<int64_t>(ceil_div(shape_.count, threads), 1 << 20));
        launch("convolution.gpu_direct",
                long_sums(forward) ? gather_kernel<Type, forward, long_sum>
                                   : gather_kernel<Type, forward, plain_sum>,
                blocks, threads, 0, stream, read, weights, written, shape_);
    }

    template <typename Type, typename Result>
    void sum_weights(const Type *src, const Type *dst, Result *weights,
            std::byte *workspace, cudaStream_t stream) const {
        using sum = sum_of<Type>;
        auto *partials = reinterpret_cast<sum *>(workspace);
        const int64_t units = shape_.count * parts_;
        launch("convolution.gpu_direct (weights)", weights_kernel<Type>,
                static_cast<unsigned>(std::min<int64_t>(units, 1 << 30)),
                threads, 0, stream, src, dst, partials, shape_, parts_, units);
        launch("convolution.gpu_direct (parts)", parts_kernel<sum, Result>,
                static_cast<unsigned>(ceil_div(shape_.count, threads)), threads,
                0, stream, partials, weights, shape_, parts_, shape_.count);
    }

    convolution_direction direction_;
    detail::data_type type_;
    detail::data_type weights_type_;
    convolution_shape shape_;
    int64_t parts_ = 1;
};

} // namespace

plan_or_refusal make_convolution_direct(
        const convolution_problem &problem, const compile_options &options) {
    return std::make_unique<direct_plan>(
            problem, static_cast<int>(options.device));
}

} // namespace gradnn::gpu
