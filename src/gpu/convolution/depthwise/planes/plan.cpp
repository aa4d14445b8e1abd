#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"

namespace gradnn::gpu::depthwise::planes {

namespace {

constexpr const char *what_it_takes
        = "NCX without gaps, windows of 3x3, 5x5 and 7x7 on planes with "
          "dilations of 1 and strides of 1 or (gradients) 2, rows that fit in "
          "shared memory";

class plan final : public family_plan {
public:
    plan(problem_facts facts, const work_cut &planes)
        : family_plan(std::move(facts)), planes_(planes) {}

private:
    int64_t parts(bool) const override { return planes_.parts(); }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        planes::launch_data(
                type(), shape(), planes_, is_wide(alignment), pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        planes::launch_weights(
                type(), shape(), planes_, is_wide(alignment), pointers, stream);
    }
    bool is_wide(const tensor_alignment &alignment) const {
        return alignment.pairs && rows_are_wide(shape(), facts().of_weights());
    }

    const work_cut planes_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    const int64_t element_bytes = facts->element_bytes();
    work_cut planes;
    if (facts->channels_last
            || !takes(facts->shape, element_bytes, facts->of_weights())
            || !(facts->of_weights()
                            ? cut_weights(planes, facts->shape, element_bytes,
                                    facts->multiprocessors, longest_f32_chain)
                            : cut_data(planes, facts->shape, element_bytes,
                                    facts->multiprocessors)))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), planes), options);
}

} // namespace gradnn::gpu::depthwise::planes
