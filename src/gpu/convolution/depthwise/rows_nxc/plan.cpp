#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

bool cut(work_cut &rows, const problem_facts &facts, bool vectors) {
    if (!facts.channels_last || !takes(facts.shape)) return false;
    const int widest
            = facts.sum_bytes() == 4 && facts.both_divide(2, 1) ? 2 : 1;
    rows.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? cut_weights(rows, facts.shape, widest, facts.multiprocessors,
                    longest_f32_chain)
            : cut_data(rows, facts.shape, widest, facts.multiprocessors);
}

constexpr family<work_cut> kernels {.takes
        = "NXC, windows of 9 points and more along W alone with strides and "
          "dilations of 1, 16 columns and more",
        .cut = cut,
        .cuts_by_alignment = true,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::rows_nxc
