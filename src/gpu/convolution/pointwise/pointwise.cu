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
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/device/constants.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/residency.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::pointwise {

namespace {

using detail::convolution_direction;
using detail::data_type;

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

class pointwise_plan final : public kernel_plan {
public:
    pointwise_plan(const convolution_problem &problem,
            const problem_shape &shape, int device)
        : shape_(shape) {
        const allocation_guard current(device);
        const device_properties &properties = properties_of(device);
        // Blocks that the device holds.
        const auto choose = [&](auto *kernel, int64_t bytes) {
            kernel_ = reinterpret_cast<any_kernel *>(kernel);
            shared_bytes_ = static_cast<size_t>(bytes);
            allow_shared_bytes(kernel, properties.block_shared_bytes);
            const int held = blocks_held(kernel, 32 * warps, shared_bytes_);
            return int64_t {std::max(held, 1)} * properties.multiprocessors;
        };
        if (problem.direction != convolution_direction::backward_weights) {
            with_kernel<1, 2, 4, 8, 16>(problem.src.type, shape.planes,
                    steps_of(shape),
                    [&]<typename Type, bool planes, int steps>() {
                        blocks_ = std::min(
                                choose(data_kernel<Type, planes, steps>,
                                        data_shared_bytes(shape)),
                                ceil_div(shape.tiles, int64_t {warps}));
                    });
            return;
        }
        with_kernel<1, 2, 4>(problem.src.type, shape.planes,
                row_tiles_of(shape),
                [&]<typename Type, bool planes, int row_tiles>() {
                    blocks_ = parts_of(shape,
                            choose(weights_kernel<Type, planes, row_tiles>,
                                    weights_shared_bytes(shape)));
                });
        partial_bytes_ = partial_weights_bytes(problem, blocks_);
        add_parts_ = weights_sum_launcher(
                "convolution.gpu_pointwise (parts)", problem, blocks_, false);
    }

    size_t workspace_bytes() const override { return partial_bytes_; }

private:
    /// Data: read, weights, written. Weights: first, second, partial sums.
    using any_kernel = void(const void *, const void *, void *, problem_shape);

    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        void *const first = args[shape_.first_is_dst ? 2 : 0];
        void *const second = args[shape_.first_is_dst ? 0 : 2];
        problem_shape shape = shape_; // for tensors that begin there
        const auto narrow = [](operand &tensor, const void *pointer) {
            while (!is_aligned(pointer, static_cast<size_t>(tensor.vector) * 2))
                tensor.vector /= 2;
        };
        narrow(shape.first, first);
        narrow(shape.second, second);
        launch_early("convolution.gpu_pointwise", kernel_, blocks_, 32 * warps,
                shared_bytes_, stream, first, add_parts_ ? second : args[1],
                add_parts_ ? workspace : second, shape);
        if (add_parts_)
            add_parts_({args[0], args[1], args[2], workspace}, stream);
    }

    const problem_shape shape_;
    any_kernel *kernel_ = nullptr;
    int64_t blocks_ = 1;
    size_t shared_bytes_ = 0;
    size_t partial_bytes_ = 0; ///< of weights
    launcher add_parts_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string why;
    const auto shape = describe(problem, why);
    if (!shape) return plan_or_refusal::refuse(why);
    const auto device = static_cast<int>(options.device);
    const bool of_weights
            = problem.direction == convolution_direction::backward_weights;
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
    return within_workspace_limit(
            std::make_unique<pointwise_plan>(problem, *shape, device), options,
            "its sums");
}

} // namespace gradnn::gpu::pointwise
