#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::any {

namespace {

/// Blocks that fill the device.
int64_t blocks_for(const problem_facts &facts) {
    return facts.multiprocessors * 8;
}

bool cut_work(blocks_cut &cut, const problem_facts &facts, bool vectors) {
    if (!facts.channels_last) return false;
    const int most = facts.sum_bytes() == 8 ? 2 : 4;
    const int widest = facts.both_divide(most, 1) ? most : 1;
    cut.block.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? cut_blocks_weights(cut.block, cut.weights, facts.shape, widest,
                    facts.element_bytes(), blocks_for(facts), longest_f32_chain)
            : cut_blocks(cut.block, facts.shape, widest, facts.element_bytes(),
                    blocks_for(facts));
}

/// The weights in the sums' type, as rows of taps without gaps.
int64_t weights_of_channel(const problem_shape &shape) {
    return int64_t {shape.axes[0].kernel} * shape.axes[1].kernel * shape.chunks
            * shape.taps;
}

constexpr family<blocks_cut> kernels {.takes
        = "NXC, any window: threads along the channels, less than 2^31 "
          "blocks of them",
        .cut = cut_work,
        .cuts_by_alignment = true,
        .launch_data = launch_data,
        .launch_weights = launch_weights,
        .data_sums = weights_of_channel};

} // namespace

plan_or_refusal make_blocks(
        const convolution_problem &problem, const compile_options &options) {
    return make_plan(kernels, problem, options);
}

} // namespace gradnn::gpu::depthwise::any
