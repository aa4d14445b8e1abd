#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/lines/cut.hpp"

namespace gradnn::gpu::depthwise::lines {

namespace {

bool cut(work_cut &lines, const problem_facts &facts, bool) {
    return !facts.channels_last && facts.tensor_cores_suit()
            && takes(facts.shape)
            && cut_work(lines, facts.shape, facts.of_weights(),
                    facts.multiprocessors);
}

constexpr family<work_cut> kernels {.takes
        = "bf16 and f16 in NCX without gaps, weights alike, windows of 5 to 63 "
          "points along W alone with strides and dilations of 1 and "
          "pads smaller than the window, 64 columns and more",
        .cut = cut,
        .cuts_by_alignment = false,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::lines
