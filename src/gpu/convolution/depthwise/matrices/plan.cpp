#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/matrices/cut.hpp"

namespace gradnn::gpu::depthwise::matrices {

namespace {

bool cut(work_cut &matrices, const problem_facts &facts, bool vectors) {
    const bool of_weights = facts.of_weights();
    if (facts.channels_last || !facts.tensor_cores_suit()
            || !takes(facts.shape, of_weights)
            || !cut_work(
                    matrices, facts.shape, of_weights, facts.multiprocessors))
        return false;
    // Gaps between rows are for rows that are whole vectors.
    if (!vectors) matrices.read_gap = matrices.written_gap = 0;
    return true;
}

constexpr family<work_cut> kernels {.takes
        = "bf16 and f16 in NCX without gaps, weights alike, windows of 5x5 "
          "and 7x7 (of src 3x3 too) on planes with strides and "
          "dilations of 1 and pads smaller than the window",
        .cut = cut,
        .cuts_by_alignment = true,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::matrices
