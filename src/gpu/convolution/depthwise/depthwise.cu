// convolution.gpu_depthwise_matrices: the launches and the plan.
#include <array>
#include <type_traits>

#include "gpu/convolution/depthwise/cut.hpp"
#include "gpu/convolution/depthwise/lines.cuh"
#include "gpu/convolution/depthwise/planes_data.cuh"
#include "gpu/convolution/depthwise/planes_weights.cuh"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/with_type.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::depthwise {

namespace {

/// run(kernel), where tensors are at multiples of 2, 4 or 16 bytes. A kernel of weights
/// leaves partial sums.
template <typename Type, typename Run>
auto with_kernel(const cut_problem &of, int alignment, const Run &run) {
    const auto &[type, of_weights, shape, cut] = of;
    // Two columns are loaded and stored at a time, with those of dst an even number
    // before those of src.
    const bool wide = alignment >= 4 && shape.along.read % 2 == 0
            && shape.along.written % 2 == 0
            && (!of_weights || (shape.along.before - usual_pad) % 2 == 0);
    return with_chosen(
            [&]<int steps, int width>() {
                if constexpr (steps > 1)
                    return of_weights
                            ? run(depthwise_lines_weights_kernel<Type, steps>)
                            : run(depthwise_lines_data_kernel<Type, steps,
                                    width>);
                else
                    return of_weights
                            ? run(depthwise_planes_weights_kernel<Type, width>)
                            : run(depthwise_planes_data_kernel<Type, width>);
            },
            one_of<1, 2, 3, 4, 5> {cut.steps}, one_of<1, 2> {wide ? 2 : 1});
}

launcher launcher_of(const cut_problem &of, int alignment) {
    return with_half_precision_type(of.type, [&]<typename Type>() {
        return with_kernel<Type>(of, alignment,
                [&]<typename Written>(void (*kernel)(const Type *, const Type *,
                        Written *, problem_shape, work_cut)) -> launcher {
                    return [kernel, shape = of.shape,
                                   cut = of.cut.at(alignment)](
                                   const tensor_pointers &at,
                                   const launch_stream &stream) {
                        constexpr bool sums = std::is_same_v<Written, float>;
                        launch_early("convolution.gpu_depthwise_matrices",
                                kernel, cut.blocks(), cut.threads(),
                                cut.shared_bytes, stream,
                                sums ? at.src : at.read(shape.to_src),
                                sums ? at.dst : at.weights,
                                sums ? at.workspace : at.written(shape.to_src),
                                shape, cut);
                    };
                });
    });
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    const auto work = cut_of(problem,
            properties_of(static_cast<int>(options.device)).multiprocessors);
    if (!work)
        return detail::refuse(
                "groups of one channel, bf16 and f16 in NCX without gaps, "
                "weights alike, strides and dilations of 1, pads smaller than "
                "the window, which has 16 to 63 points along W alone (of 64 "
                "columns and more) or 7x7 (planes of at least 12x12)",
                problem);
    const std::array by_alignment {launcher_of(*work, 2), launcher_of(*work, 4),
            launcher_of(*work, 16)};
    const int64_t parts = work->of_weights ? work->cut.parts() : 0;
    launcher add;
    if (work->of_weights)
        add = weights_sum_launcher("convolution.gpu_depthwise_matrices (parts)",
                problem, parts, true);
    const auto launch = [=](const tensor_pointers &at,
                                const launch_stream &stream) {
        const auto both_at = [&](size_t bytes) {
            return is_aligned(at.src, bytes) && is_aligned(at.dst, bytes);
        };
        by_alignment[both_at(16) ? 2 : both_at(4) ? 1 : 0](at, stream);
        if (add) add(at, stream);
    };
    return within_workspace_limit(
            plan_of(launch, partial_weights_bytes(problem, parts)), options,
            "its sums");
}

} // namespace gradnn::gpu::depthwise
