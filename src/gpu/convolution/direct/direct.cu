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

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/device/dtype.cuh"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"

namespace gradnn::gpu::direct {

namespace {

using detail::convolution_direction;

class direct_plan final : public kernel_plan {
public:
    direct_plan(const convolution_problem &problem, int device)
        : direction_(problem.direction),
          type_(problem.src.type),
          weights_type_(problem.weights.type) {
        const auto set = [](auto &to, const auto &from) {
            std::copy(from.begin(), from.end(), to);
        };
        set(shape_.src_dims, problem.src.dims);
        set(shape_.src_strides, problem.src.strides);
        set(shape_.dst_dims, problem.dst.dims);
        set(shape_.dst_strides, problem.dst.strides);
        set(shape_.weights_dims, problem.weights.dims);
        set(shape_.weights_strides, problem.weights.strides);
        set(shape_.strides, problem.strides);
        set(shape_.dilations, problem.dilations);
        set(shape_.pads, problem.pads_begin);
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

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        with_float_type(type_, [&]<typename Type>() {
            auto *src = static_cast<Type *>(args[0]);
            auto *weights = static_cast<Type *>(args[1]);
            auto *dst = static_cast<Type *>(args[2]);
            switch (direction_) {
                case convolution_direction::forward:
                    gather<Type, true>(src, weights, dst, stream);
                    break;
                case convolution_direction::backward_data:
                    gather<Type, false>(dst, weights, src, stream);
                    break;
                case convolution_direction::backward_weights:
                    if (weights_type_ == type_)
                        sum_weights(src, dst, weights, workspace, stream);
                    else
                        sum_weights(src, dst, static_cast<float *>(args[1]),
                                workspace, stream);
                    break;
            }
        });
    }

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
        launch("convolution.gpu_direct",
                long_sums(forward) ? gather_kernel<Type, forward, long_sum>
                                   : gather_kernel<Type, forward, plain_sum>,
                blocks_for(shape_.count, threads), threads, 0, stream, read,
                weights, written, shape_);
    }

    template <typename Type, typename Result>
    void sum_weights(const Type *src, const Type *dst, Result *weights,
            std::byte *workspace, cudaStream_t stream) const {
        using sum = sum_of<Type>;
        auto *partials = reinterpret_cast<sum *>(workspace);
        const int64_t units = shape_.count * parts_;
        launch("convolution.gpu_direct (weights)", weights_kernel<Type>,
                std::min<int64_t>(units, 1 << 30), threads, 0, stream, src, dst,
                partials, shape_, parts_, units);
        launch("convolution.gpu_direct (parts)", parts_kernel<sum, Result>,
                ceil_div(shape_.count, threads), threads, 0, stream, partials,
                weights, shape_, parts_, shape_.count);
    }

    convolution_direction direction_;
    detail::data_type type_;
    detail::data_type weights_type_;
    problem_shape shape_;
    int64_t parts_ = 1;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return std::make_unique<direct_plan>(
            problem, static_cast<int>(options.device));
}

} // namespace gradnn::gpu::direct
