// convolution.gpu_depthwise_matrices: the launches and the plan.
#include "gpu/convolution/depthwise/lines.cuh"
#include "gpu/convolution/depthwise/planes_data.cuh"
#include "gpu/convolution/depthwise/planes_weights.cuh"
#include "gpu/convolution/operands.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::depthwise {

namespace {

/// run(kernel), where tensors are at multiples of 2, 4 or 16 bytes. A kernel of weights
/// leaves partial sums.
template <typename Run>
void with_kernel(detail::data_type type, const cut_problem &of, int alignment,
        const Run &run) {
    const auto &[shape, cut, of_weights] = of;
    // Two columns are loaded and stored at a time, with those of dst an even number
    // before those of src.
    const bool wide = alignment >= 4 && shape.along.read % 2 == 0
            && shape.along.written % 2 == 0
            && (!of_weights || (shape.along.before - usual_pad) % 2 == 0);
    with_half_precision_type(type, [&]<typename Type>() {
        with_chosen(
                [&]<int steps, int width>() {
                    if constexpr (steps > 1)
                        of_weights ? run(
                                depthwise_lines_weights_kernel<Type, steps>)
                                   : run(depthwise_lines_data_kernel<Type,
                                           steps, width>);
                    else
                        of_weights ? run(
                                depthwise_planes_weights_kernel<Type, width>)
                                   : run(depthwise_planes_data_kernel<Type,
                                           width>);
                },
                one_of<1, 2, 3, 4, 5> {cut.steps}, one_of<1, 2> {wide ? 2 : 1});
    });
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const auto work
            = cut_of(problem, properties_of(options.device).multiprocessors);
    if (!work)
        return detail::refuse(
                "groups of one channel, bf16 and f16 in NCX without gaps, "
                "weights alike, strides and dilations of 1, pads smaller than "
                "the window, which has 16 to 63 points along W alone (of 64 "
                "columns and more) or 7x7 (planes of at least 12x12)",
                problem);
    const int64_t parts = work->of_weights ? work->cut.parts() : 0;
    const launcher add = weights_sum_launcher(
            "convolution.gpu_depthwise_matrices (parts)", problem, parts, true);
    const auto launch = [add, of = *work, type = problem.src.type](
                                const tensor_pointers &at,
                                const launch_stream &stream) {
        const auto both_at = [&](size_t bytes) {
            return is_aligned(at.src, bytes) && is_aligned(at.dst, bytes);
        };
        const int alignment = both_at(16) ? 16 : both_at(4) ? 4 : 2;
        const work_cut cut = of.cut.at(alignment);
        const bool to_src = of.shape.to_src;
        with_kernel(type, of, alignment, [&](auto *kernel) {
            launch_early("convolution.gpu_depthwise_matrices", kernel,
                    cut.blocks(), cut.threads(), cut.shared_bytes, stream,
                    of.of_weights ? at.src : at.read(to_src),
                    of.of_weights ? at.dst : at.weights,
                    of.of_weights ? at.workspace : at.written(to_src), of.shape,
                    cut);
        });
        if (add) add(at, stream);
    };
    return within_workspace_limit(
            plan_of(launch, partial_weights_bytes(problem, parts)), options);
}

} // namespace gradnn::gpu::depthwise
