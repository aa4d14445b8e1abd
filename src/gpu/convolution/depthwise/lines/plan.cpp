#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu::depthwise::lines {

namespace {

constexpr const char *what_it_takes
        = "bf16 and f16 in NCX without gaps, weights alike, windows of 5 to 63 "
          "points along W alone with strides and dilations of 1 and pads "
          "smaller than the window, 64 columns and more";

class plan final : public family_plan {
public:
    plan(problem_facts facts, const work_cut &lines)
        : family_plan(std::move(facts)), lines_(lines) {}

private:
    int64_t parts(bool) const override { return lines_.parts; }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        lines::launch_data(type(), shape(), lines_,
                alignment.pairs && rows_are_wide(shape()), pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &,
            const launch_stream &stream) const override {
        lines::launch_weights(type(), shape(), lines_, pointers, stream);
    }

    const work_cut lines_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    work_cut lines;
    if (facts->channels_last || !facts->tensor_cores_suit()
            || !takes(facts->shape)
            || !cut_work(lines, facts->shape, facts->of_weights(),
                    facts->multiprocessors))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), lines), options);
}

} // namespace gradnn::gpu::depthwise::lines
