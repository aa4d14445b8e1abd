#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/matrices/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "bf16 and f16 in NCX without gaps, weights alike, windows of 5x5 and "
          "7x7 (of src 3x3 too) on planes with strides and dilations of 1 and "
          "pads smaller than the window";

class matrices_plan final : public depthwise_plan {
public:
    matrices_plan(depthwise_facts facts, const depthwise_matrices &matrices)
        : depthwise_plan(std::move(facts)), matrices_(matrices) {}

private:
    int64_t parts(bool) const override { return matrices_.parts(); }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_matrices_data(type(), shape(), cut_for(alignment),
                is_wide(alignment), pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_matrices_weights(type(), shape(), cut_for(alignment),
                is_wide(alignment), pointers, stream);
    }

    /// Gaps between rows are for rows that are whole vectors.
    depthwise_matrices cut_for(const depthwise_alignment &alignment) const {
        depthwise_matrices cut = matrices_;
        if (!alignment.vectors) cut.read_gap = cut.written_gap = 0;
        return cut;
    }
    bool is_wide(const depthwise_alignment &alignment) const {
        return alignment.pairs
                && matrices_are_wide(shape(), facts().of_weights());
    }

    const depthwise_matrices matrices_;
};

} // namespace

plan_or_refusal make_depthwise_matrices(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    depthwise_matrices matrices;
    if (facts->channels_last || !facts->tensor_cores_suit()
            || !matrices_take(facts->shape, facts->of_weights())
            || !cut_matrices(matrices, facts->shape, facts->of_weights(),
                    facts->multiprocessors))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<matrices_plan>(std::move(*facts), matrices),
            options);
}

} // namespace gradnn::gpu
