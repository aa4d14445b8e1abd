#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_ncx/cut.hpp"

namespace gradnn::gpu::depthwise::rows_ncx {

namespace {

constexpr const char *what_it_takes
        = "f32 and f64 in NCX, windows of 3 to 64 points along W alone with "
          "strides and dilations of 1 and pads smaller than the window, "
          "channels with rows enough";

class plan final : public family_plan {
public:
    plan(problem_facts facts, const work_cut &rows)
        : family_plan(std::move(facts)), rows_(rows) {}

private:
    int64_t parts(bool) const override { return rows_.parts; }
    void launch_data(const tensor_pointers &pointers, const tensor_alignment &,
            const launch_stream &stream) const override {
        rows_ncx::launch_data(type(), shape(), rows_, pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &,
            const launch_stream &stream) const override {
        rows_ncx::launch_weights(type(), shape(), rows_, pointers, stream);
    }

    const work_cut rows_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    work_cut rows;
    if (facts->channels_last || !takes(facts->shape, facts->element_bytes())
            || !cut_work(rows, facts->shape, facts->element_bytes(),
                    facts->of_weights(), facts->multiprocessors,
                    longest_f32_chain))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), rows), options);
}

} // namespace gradnn::gpu::depthwise::rows_ncx
