#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::matrices {

namespace {

constexpr const char *what_it_takes
        = "bf16 and f16 in NCX without gaps, weights alike, windows of 5x5 and "
          "7x7 (of src 3x3 too) on planes with strides and dilations of 1 and "
          "pads smaller than the window";

class plan final : public family_plan {
public:
    plan(problem_facts facts, const work_cut &matrices)
        : family_plan(std::move(facts)), matrices_(matrices) {}

private:
    int64_t parts(bool) const override { return matrices_.parts(); }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        matrices::launch_data(type(), shape(), cut_for(alignment),
                is_wide(alignment), pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        matrices::launch_weights(type(), shape(), cut_for(alignment),
                is_wide(alignment), pointers, stream);
    }

    /// Gaps between rows are for rows that are whole vectors.
    work_cut cut_for(const tensor_alignment &alignment) const {
        work_cut cut = matrices_;
        if (!alignment.vectors) cut.read_gap = cut.written_gap = 0;
        return cut;
    }
    bool is_wide(const tensor_alignment &alignment) const {
        return alignment.pairs && rows_are_wide(shape(), facts().of_weights());
    }

    const work_cut matrices_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    work_cut matrices;
    if (facts->channels_last || !facts->tensor_cores_suit()
            || !takes(facts->shape, facts->of_weights())
            || !cut_work(matrices, facts->shape, facts->of_weights(),
                    facts->multiprocessors))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), matrices), options);
}

} // namespace gradnn::gpu::depthwise::matrices
