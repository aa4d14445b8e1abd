#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/lines/cut.hpp"
#include "gpu/convolution/depthwise/plan.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "bf16 and f16 in NCX without gaps, weights alike, windows of 5 to 63 "
          "points along W alone with strides and dilations of 1 and pads "
          "smaller than the window, 64 columns and more";

class lines_plan final : public depthwise_plan {
public:
    lines_plan(depthwise_facts facts, const depthwise_lines &lines)
        : depthwise_plan(std::move(facts)), lines_(lines) {}

private:
    int64_t parts(bool) const override { return lines_.parts; }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_lines_data(type(), shape(), lines_,
                alignment.pairs && lines_are_wide(shape()), pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &,
            const launch_stream &stream) const override {
        launch_depthwise_lines_weights(
                type(), shape(), lines_, pointers, stream);
    }

    const depthwise_lines lines_;
};

} // namespace

plan_or_refusal make_depthwise_lines(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    depthwise_lines lines;
    if (facts->channels_last || !facts->tensor_cores_suit()
            || !lines_take(facts->shape)
            || !cut_lines(lines, facts->shape, facts->of_weights(),
                    facts->multiprocessors))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<lines_plan>(std::move(*facts), lines), options);
}

} // namespace gradnn::gpu
