#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

constexpr const char *what_it_takes
        = "NXC, windows of 9 points and more along W alone with strides and "
          "dilations of 1, 16 columns and more";

/// With tensors at multiples of 16 bytes, and without.
struct both_cuts {
    work_cut aligned, unaligned;

    const work_cut &of(bool vectors) const {
        return vectors ? aligned : unaligned;
    }
};

class plan final : public family_plan {
public:
    plan(problem_facts facts, const both_cuts &cuts)
        : family_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts;
    }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        rows_nxc::launch_data(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        rows_nxc::launch_weights(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }

    const both_cuts cuts_;
};

bool cut_both(both_cuts &cuts, const problem_facts &facts) {
    const int widest
            = facts.sum_bytes() == 4 && facts.both_divide(2, 1) ? 2 : 1;
    const auto cut = [&](work_cut &rows, int vector) {
        rows.vector = vector;
        return facts.of_weights()
                ? cut_weights(rows, facts.shape, widest, facts.multiprocessors,
                        longest_f32_chain)
                : cut_data(rows, facts.shape, widest, facts.multiprocessors);
    };
    return cut(cuts.aligned, widest) && cut(cuts.unaligned, 1);
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    both_cuts cuts;
    if (!facts->channels_last || !takes(facts->shape)
            || !cut_both(cuts, *facts))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu::depthwise::rows_nxc
