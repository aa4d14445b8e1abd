#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"

namespace gradnn::gpu::depthwise::rows_ncx {

namespace {

bool cut(work_cut &rows, const problem_facts &facts, bool) {
    return !facts.channels_last && takes(facts.shape, facts.element_bytes())
            && cut_work(rows, facts.shape, facts.element_bytes(),
                    facts.of_weights(), facts.multiprocessors,
                    longest_f32_chain);
}

constexpr family<work_cut> kernels {.takes
        = "f32 and f64 in NCX, windows of 3 to 64 points along W alone with "
          "strides and dilations of 1 and pads smaller than the window, "
          "channels with rows enough",
        .cut = cut,
        .cuts_by_alignment = false,
        .launch_data = launch_data,
        .launch_weights = launch_weights};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::rows_ncx
