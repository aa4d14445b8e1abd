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
// backward_weights: a block sums one weight over one part of the positions of dst, or
// as many as neighbouring channels of dst, where these lie side by side; a second launch
// adds the parts.
// Every sum has one order, given by the shape: the same bits on every run.
#include <algorithm>
#include <cstdint>
#include <variant>

#include "gpu/convolution/direct/kernels.cuh"
#include "gpu/convolution/direct/parts.cuh"
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
          weights_type_(problem.weights.type),
          long_sums_(sums_are_long(problem)) {
        const int multiprocessors = properties_of(device).multiprocessors;
        // Each block makes a table of its own.
        constexpr int64_t of_multiprocessor = 8;
        most_blocks_ = of_multiprocessor * multiprocessors;
        if (is_small(problem))
            shape_ = shape_of<int32_t>(problem);
        else
            shape_ = shape_of<int64_t>(problem);
        if (direction_ == convolution_direction::backward_weights)
            cut_ = cut_weights(problem, multiprocessors);
    }

    size_t workspace_bytes() const override {
        if (direction_ != convolution_direction::backward_weights) return 0;
        const size_t bytes = type_ == detail::data_type::f64 ? 8 : 4;
        return static_cast<size_t>(cut_.channels * cut_.taps * cut_.parts)
                * bytes;
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        with_float_type(type_, [&]<typename Type>() {
            auto *src = static_cast<Type *>(args[0]);
            auto *weights = static_cast<Type *>(args[1]);
            auto *dst = static_cast<Type *>(args[2]);
            std::visit(
                    [&](const auto &shape) {
                        switch (direction_) {
                            case convolution_direction::forward:
                                gather<Type, true>(
                                        shape, src, weights, dst, stream);
                                break;
                            case convolution_direction::backward_data:
                                gather<Type, false>(
                                        shape, dst, weights, src, stream);
                                break;
                            case convolution_direction::backward_weights:
                                if (weights_type_ == type_)
                                    sum_weights(shape, src, dst, weights,
                                            workspace, stream);
                                else
                                    sum_weights(shape, src, dst,
                                            static_cast<float *>(args[1]),
                                            workspace, stream);
                                break;
                        }
                    },
                    shape_);
        });
    }

    /// Whether a sum over the taps of a channel, or over channels, is longer
    /// than plain sums should be.
    static bool sums_are_long(const convolution_problem &problem) {
        constexpr int64_t most = 2048;
        const auto &weights = problem.weights.dims;
        int64_t taps = 1; // at most `most` times what an axis of memory holds
        for (size_t axis = 3; axis < 6; ++axis)
            if (taps <= most) taps *= weights[axis];
        const bool forward
                = problem.direction == convolution_direction::forward;
        return taps > most || weights[forward ? 2 : 1] > most;
    }

    template <typename Type, bool forward, typename Index>
    void gather(const problem_shape<Index> &shape, const Type *read,
            const Type *weights, Type *written, cudaStream_t stream) const {
        launch("convolution.gpu_direct",
                long_sums_ ? gather_kernel<Type, forward, long_sum, Index>
                           : gather_kernel<Type, forward, plain_sum, Index>,
                std::min(
                        ceil_div(shape.count, int64_t {threads}), most_blocks_),
                threads,
                static_cast<size_t>(shape.table) * sizeof(axis_taps<Index>),
                stream, read, weights, written, shape);
    }

    template <typename Type, typename Result, typename Index>
    void sum_weights(const problem_shape<Index> &shape, const Type *src,
            const Type *dst, Result *weights, std::byte *workspace,
            cudaStream_t stream) const {
        using sum = sum_of<Type>;
        auto *partials = reinterpret_cast<sum *>(workspace);
        const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(
                                  cut_.taps * cut_.channel_tiles, 1 << 30)),
                static_cast<unsigned>(std::min<int64_t>(cut_.parts, 1 << 15)));
        launch("convolution.gpu_direct (weights)", weights_kernel<Type, Index>,
                blocks, threads, threads * sizeof(sum), stream, src, dst,
                partials, shape, cut_);
        launch("convolution.gpu_direct (parts)",
                parts_kernel<sum, Result, Index>, parts_blocks(shape.count),
                threads, threads * sizeof(double), stream, partials, weights,
                shape, cut_);
    }

    convolution_direction direction_;
    detail::data_type type_;
    detail::data_type weights_type_;
    bool long_sums_;
    int64_t most_blocks_ = 1;
    std::variant<problem_shape<int32_t>, problem_shape<int64_t>> shape_;
    weights_cut cut_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return std::make_unique<direct_plan>(
            problem, static_cast<int>(options.device));
}

} // namespace gradnn::gpu::direct
