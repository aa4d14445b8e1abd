#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "f32 and f64 in NCX, windows of 3 to 64 points along W alone with "
          "strides and dilations of 1 and pads smaller than the window, "
          "channels with rows enough";

class rows_ncx_plan final : public depthwise_plan {
public:
    rows_ncx_plan(depthwise_facts facts, const depthwise_rows_ncx &rows)
        : depthwise_plan(std::move(facts)), rows_(rows) {}

private:
    int64_t parts(bool) const override { return rows_.parts; }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &,
            const launch_stream &stream) const override {
        launch_depthwise_rows_ncx_data(
                type(), shape(), rows_, pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &,
            const launch_stream &stream) const override {
        launch_depthwise_rows_ncx_weights(
                type(), shape(), rows_, pointers, stream);
    }

    const depthwise_rows_ncx rows_;
};

} // namespace

plan_or_refusal make_depthwise_rows_ncx(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    depthwise_rows_ncx rows;
    if (facts->channels_last
            || !rows_ncx_take(facts->shape, facts->element_bytes())
            || !cut_rows_ncx(rows, facts->shape, facts->element_bytes(),
                    facts->of_weights(), facts->multiprocessors,
                    depthwise_longest_chain))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<rows_ncx_plan>(std::move(*facts), rows), options);
}

} // namespace gradnn::gpu
