// convolution.gpu_pointwise: which problems, and the plan. The kernels: data.cuh and
// weights.cuh; how a problem is cut: shape.hpp.
#include <algorithm>
#include <memory>
#include <string>

#include "base/text.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/pointwise/data.cuh"
#include "gpu/convolution/pointwise/weights.cuh"
#include "gpu/convolution/weights_sum_launcher.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::pointwise {

namespace {

using detail::data_type;

/// A kernel of one of the types, that its plan has chosen, and its launch.
struct chosen_kernel {
    /// Data: read, weights, written. Weights: first, second, partial sums.
    void (*kernel)(const void *, const void *, void *, problem_shape) = nullptr;
    int64_t blocks = 1;
    size_t shared_bytes = 0;

    /// Blocks of an SM.
    template <typename Kernel>
    int set(Kernel *chosen, int device, int64_t bytes) {
        kernel = reinterpret_cast<decltype(kernel)>(chosen);
        shared_bytes = static_cast<size_t>(bytes);
        allow_shared_bytes(chosen, properties_of(device).block_shared_bytes);
        return std::max(blocks_held(chosen, 32 * warps, shared_bytes), 1);
    }
    void launch(const launch_stream &stream, const void *first,
            const void *other, void *result, const problem_shape &shape) const {
        launch_early("convolution.gpu_pointwise", kernel, blocks, 32 * warps,
                shared_bytes, stream, first, other, result, shape);
    }
};

/// Calls body.template operator()<Type, planes, number>().
template <int... numbers, typename Body>
void with_kernel(data_type type, bool planes, int number, const Body &body) {
    with_half_precision_type(type, [&]<typename Type>() {
        with_chosen(
                [&]<int of_planes, int chosen>() {
                    body.template operator()<Type, of_planes != 0, chosen>();
                },
                one_of<0, 1> {planes ? 1 : 0}, one_of<numbers...> {number});
    });
}

class pointwise_plan : public kernel_plan {
protected:
    pointwise_plan(const convolution_problem &problem, problem_shape shape)
        : shape_(shape), type_(problem.src.type) {}

    struct pointers {
        void *first;
        void *second;
    };
    pointers of(std::span<void *const> args) const {
        return {args[shape_.first_is_dst ? 2 : 0],
                args[shape_.first_is_dst ? 0 : 2]};
    }
    /// For tensors that begin there.
    problem_shape shape_for(const pointers &tensors) const {
        problem_shape shape = shape_;
        const auto narrow = [](operand &tensor, const void *pointer) {
            while (!is_aligned(pointer, static_cast<size_t>(tensor.vector) * 2))
                tensor.vector /= 2;
        };
        narrow(shape.first, tensors.first);
        narrow(shape.second, tensors.second);
        return shape;
    }

    problem_shape shape_;
    chosen_kernel kernel_;
    data_type type_;
};

class data_plan final : public pointwise_plan {
public:
    data_plan(const convolution_problem &problem, const problem_shape &shape,
            int device)
        : pointwise_plan(problem, shape) {
        const allocation_guard current(device);
        with_kernel<1, 2, 4, 8, 16>(type_, shape_.planes, steps_of(shape_),
                [&]<typename Type, bool planes, int steps>() {
                    const int64_t held
                            = kernel_.set(data_kernel<Type, planes, steps>,
                                    device, data_shared_bytes(shape_));
                    kernel_.blocks = std::min(
                            held * properties_of(device).multiprocessors,
                            ceil_div(shape_.tiles, int64_t {warps}));
                });
    }
    size_t workspace_bytes() const override { return 0; }

private:
    void submit(std::span<void *const> args, std::byte *,
            const launch_stream &stream) const override {
        const pointers tensors = of(args);
        kernel_.launch(stream, tensors.first, args[1], tensors.second,
                shape_for(tensors));
    }
};

class weights_plan final : public pointwise_plan {
public:
    weights_plan(const convolution_problem &problem, const problem_shape &shape,
            int device)
        : pointwise_plan(problem, shape) {
        const allocation_guard current(device);
        with_kernel<1, 2, 4>(type_, shape_.planes, row_tiles_of(shape_),
                [&]<typename Type, bool planes, int row_tiles>() {
                    const int64_t held = kernel_.set(
                            weights_kernel<Type, planes, row_tiles>, device,
                            weights_shared_bytes(shape_));
                    kernel_.blocks = parts_of(shape_,
                            held * properties_of(device).multiprocessors);
                    const partial_weights partial(problem, kernel_.blocks);
                    sums_ = partial.parts * partial.count;
                    add_parts_ = weights_sum_launcher<float, Type>(
                            "convolution.gpu_pointwise (parts)", partial);
                });
    }
    size_t workspace_bytes() const override {
        return static_cast<size_t>(sums_) * sizeof(float);
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        const pointers tensors = of(args);
        kernel_.launch(stream, tensors.first, tensors.second, workspace,
                shape_for(tensors));
        add_parts_({args[0], args[1], args[2], workspace}, stream);
    }

    int64_t sums_ = 0;
    launcher add_parts_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string why;
    const auto shape = describe(problem, why);
    if (!shape) return plan_or_refusal::refuse(why);
    const auto device = static_cast<int>(options.device);
    const bool of_weights = problem.direction
            == detail::convolution_direction::backward_weights;
    const int64_t bytes = of_weights ? weights_shared_bytes(*shape)
                                     : data_shared_bytes(*shape);
    const auto most
            = static_cast<int64_t>(properties_of(device).block_shared_bytes);
    if (bytes > most)
        return detail::refuse(
                detail::text("tiles that fit in ", most,
                        " bytes of shared memory, these would take ", bytes)
                        .c_str(),
                problem);
    if (of_weights)
        return within_workspace_limit(
                std::make_unique<weights_plan>(problem, *shape, device),
                options, "its sums");
    return std::make_unique<data_plan>(problem, *shape, device);
}

} // namespace gradnn::gpu::pointwise
