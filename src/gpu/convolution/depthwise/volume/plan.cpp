#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/volume/cut.hpp"

namespace gradnn::gpu::depthwise::volume {

namespace {

bool cut(walk::work_cut &walk, const problem_facts &facts, bool vectors) {
    if (!takes(facts.shape, facts.channels_last)) return false;
    int widest = 1;
    walk.channels_last = facts.channels_last;
    walk.sum_bytes = static_cast<int>(facts.sum_bytes());
    if (facts.channels_last) {
        const int most = widest_vector(facts.element_bytes());
        if (facts.both_divide(most, 1)) widest = most;
    } else if (vectors) {
        walk.together = columns_together(facts.shape, facts.element_bytes());
    }
    walk.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? volume::cut_weights(walk, facts.shape, widest,
                    facts.multiprocessors, longest_f32_chain)
            : volume::cut_data(walk, facts.shape, facts.multiprocessors);
}

constexpr family<walk::work_cut> kernels {.takes
        = "windows of 3x3x3 with strides and dilations of 1, in NXC of more "
          "than one slice",
        .cut = cut,
        .cuts_by_alignment = true,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::volume
