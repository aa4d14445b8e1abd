#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/any/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::any {

namespace {

constexpr const char *what_it_takes
        = "NXC, any window: threads along the channels";

struct blocks_cut {
    block_shape block;
    weights_parts parts;
};

class blocks_plan final : public family_plan {
public:
    blocks_plan(problem_facts facts, const both_cuts<blocks_cut> &cuts)
        : family_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts.parts;
    }
    /// The weights in the sums' type, as rows of taps without gaps.
    int64_t data_sums() const override {
        return int64_t {shape().axes[0].kernel} * shape().axes[1].kernel
                * shape().chunks * shape().taps;
    }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        launch_data_nxc(type(), shape(), cuts_.of(alignment.vectors).block,
                pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        const blocks_cut &cut = cuts_.of(alignment.vectors);
        launch_weights_nxc(
                type(), shape(), cut.block, cut.parts, pointers, stream);
    }

    const both_cuts<blocks_cut> cuts_;
};

/// Blocks that fill the device.
int64_t blocks_for(const problem_facts &facts) {
    return facts.multiprocessors * 8;
}

bool cut_work(blocks_cut &cut, const problem_facts &facts, bool vectors) {
    const int most = facts.sum_bytes() == 8 ? 2 : 4;
    const int widest = facts.both_divide(most, 1) ? most : 1;
    cut.block.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? cut_blocks_weights(cut.block, cut.parts, facts.shape, widest,
                    facts.element_bytes(), blocks_for(facts), longest_f32_chain)
            : cut_blocks(cut.block, facts.shape, widest, facts.element_bytes(),
                    blocks_for(facts));
}

} // namespace

plan_or_refusal make_blocks(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    if (!facts->channels_last) return refuse(what_it_takes, *facts);
    both_cuts<blocks_cut> cuts;
    if (!cut_work(cuts.aligned, *facts, true)
            || !cut_work(cuts.unaligned, *facts, false))
        return plan_or_refusal::refuse(
                "takes windows that fit in shared memory, and tensors of less "
                "than 2^31 tiles; "
                + facts->given());
    return plan_within_limit(
            std::make_unique<blocks_plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu::depthwise::any
