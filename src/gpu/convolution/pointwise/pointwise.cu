// convolution.gpu_pointwise: which problems, and the plan. The kernels: data.cuh and
// weights.cuh; how a problem is cut: shape.hpp.
#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/pointwise/data.cuh"
#include "gpu/convolution/pointwise/weights.cuh"
#include "gpu/device/constants.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::pointwise {

namespace {

/// Data: read, weights, written. Weights: first, second, partial sums.
using any_kernel = void(const void *, const void *, void *, problem_shape);

any_kernel *kernel_of(
        detail::data_type type, const problem_shape &shape, bool of_weights) {
    return with_half_precision_type(type, [&]<typename Type>() {
        return with_chosen(
                [&]<int planes, int products>() {
                    if constexpr (products <= 4)
                        if (of_weights)
                            return reinterpret_cast<any_kernel *>(
                                    weights_kernel<Type, planes != 0,
                                            products>);
                    return reinterpret_cast<any_kernel *>(
                            data_kernel<Type, planes != 0, products>);
                },
                one_of<0, 1> {shape.planes ? 1 : 0},
                one_of<1, 2, 4, 8, 16> {products_of(shape)});
    });
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string why;
    const auto shape = describe(problem, why);
    if (!shape) return plan_or_refusal::refuse(why);
    const bool of_weights = is_of_weights(problem);
    const int64_t bytes = shared_bytes_of(*shape, of_weights);
    const device_properties &properties = properties_of(options.device);
    const auto most = static_cast<int64_t>(properties.block_shared_bytes);
    if (bytes > most)
        return detail::refuse(
                detail::text("tiles that fit in ", most,
                        " bytes of shared memory, these would take ", bytes),
                problem);
    const allocation_guard current(options.device);
    any_kernel *const kernel = kernel_of(problem.src.type, *shape, of_weights);
    allow_shared_bytes(kernel, static_cast<size_t>(most));
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                  &resident, kernel, 32 * warps, static_cast<size_t>(bytes)),
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    const int64_t held
            = int64_t {std::max(resident, 1)} * properties.multiprocessors;
    const int64_t blocks = of_weights
            ? parts_of(*shape, held)
            : std::min(held, ceil_div(shape->tiles, int64_t {warps}));
    const int64_t parts = of_weights ? blocks : 0;
    const launcher add_parts = weights_sum_launcher(
            "convolution.gpu_pointwise (parts)", problem, parts, false);
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
        if (add_parts) add_parts(at, stream);
    };
    return within_workspace_limit(
            plan_of(launches, partial_weights_bytes(problem, parts)), options);
}

} // namespace gradnn::gpu::pointwise
