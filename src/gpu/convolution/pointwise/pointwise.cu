// convolution.gpu_pointwise: which problems, and the plan. The kernels: data.cuh and
// weights.cuh; how a problem is cut: shape.hpp.
#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/pointwise/data.cuh"
#include "gpu/convolution/pointwise/weights.cuh"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/device/constants.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::pointwise {

namespace {

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

/// Data: read, weights, written. Weights: first, second, partial sums.
using any_kernel = void(const void *, const void *, void *, problem_shape);

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string why;
    const auto shape = describe(problem, why);
    if (!shape) return plan_or_refusal::refuse(why);
    const auto device = static_cast<int>(options.device);
    const bool of_weights = is_of_weights(problem);
    const int64_t bytes = of_weights ? weights_shared_bytes(*shape)
                                     : data_shared_bytes(*shape);
    const device_properties &properties = properties_of(device);
    const auto most = static_cast<int64_t>(properties.block_shared_bytes);
    if (bytes > most)
        return detail::refuse(
                detail::text("tiles that fit in ", most,
                        " bytes of shared memory, these would take ", bytes)
                        .c_str(),
                problem);
    const allocation_guard current(device);
    any_kernel *kernel = nullptr;
    // Blocks that the device holds.
    const auto choose = [&](auto *chosen) {
        kernel = reinterpret_cast<any_kernel *>(chosen);
        allow_shared_bytes(chosen, static_cast<size_t>(most));
        int held = 0;
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                      &held, chosen, 32 * warps, static_cast<size_t>(bytes)),
                "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
        return int64_t {std::max(held, 1)} * properties.multiprocessors;
    };
    int64_t blocks = 1;
    size_t partial_bytes = 0;
    launcher add_parts;
    if (of_weights) {
        with_kernel<1, 2, 4>(problem.src.type, shape->planes,
                products_of(*shape),
                [&]<typename Type, bool planes, int row_tiles>() {
                    blocks = parts_of(*shape,
                            choose(weights_kernel<Type, planes, row_tiles>));
                });
        partial_bytes = partial_weights_bytes(problem, blocks);
        add_parts = weights_sum_launcher(
                "convolution.gpu_pointwise (parts)", problem, blocks, false);
    } else {
        with_kernel<1, 2, 4, 8, 16>(problem.src.type, shape->planes,
                products_of(*shape),
                [&]<typename Type, bool planes, int steps>() {
                    blocks = std::min(choose(data_kernel<Type, planes, steps>),
                            ceil_div(shape->tiles, int64_t {warps}));
                });
    }
    const auto launches = [=, of = *shape](const tensor_pointers &at,
                                  const launch_stream &stream) {
        void *const first = at.read(of.first_is_dst).data;
        void *const second = at.written(of.first_is_dst).data;
        problem_shape given = of; // for tensors that begin there
        const auto narrow = [](operand &tensor, const void *pointer) {
            while (!is_aligned(pointer, static_cast<size_t>(tensor.vector) * 2))
                tensor.vector /= 2;
        };
        narrow(given.first, first);
        narrow(given.second, second);
        launch_early("convolution.gpu_pointwise", kernel, blocks, 32 * warps,
                static_cast<size_t>(bytes), stream, first,
                of_weights ? second : at.weights.data,
                of_weights ? at.workspace.data : second, given);
        if (of_weights) add_parts(at, stream);
    };
    return within_workspace_limit(
            plan_of(launches, partial_bytes), options, "its sums");
}

} // namespace gradnn::gpu::pointwise
