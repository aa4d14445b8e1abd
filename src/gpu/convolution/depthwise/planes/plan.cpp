#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"

namespace gradnn::gpu::depthwise::planes {

namespace {

bool cut(work_cut &planes, const problem_facts &facts, bool) {
    const problem_shape &shape = facts.shape;
    const int64_t element_bytes = facts.element_bytes();
    if (facts.channels_last || !takes(shape, element_bytes, facts.of_weights()))
        return false;
    return facts.of_weights()
            ? cut_weights(planes, shape, element_bytes, facts.multiprocessors,
                    longest_f32_chain)
            : cut_data(planes, shape, element_bytes, facts.multiprocessors);
}

constexpr family<work_cut> kernels {.takes
        = "NCX without gaps, windows of 3x3, 5x5 and 7x7 on planes with "
          "dilations of 1 and strides of 1 or (gradients) 2, rows that "
          "fit in shared memory",
        .cut = cut,
        .cuts_by_alignment = false,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::planes
