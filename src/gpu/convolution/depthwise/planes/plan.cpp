#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/planes/cut.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "NCX without gaps, windows of 3x3, 5x5 and 7x7 on planes with "
          "dilations of 1 and strides of 1 or (gradients) 2, rows that fit in "
          "shared memory";

class planes_plan final : public depthwise_plan {
public:
    planes_plan(depthwise_facts facts, const depthwise_planes &planes)
        : depthwise_plan(std::move(facts)), planes_(planes) {}

private:
    int64_t parts(bool) const override { return planes_.parts(); }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_planes_data(
                type(), shape(), planes_, is_wide(alignment), pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_planes_weights(
                type(), shape(), planes_, is_wide(alignment), pointers, stream);
    }
    bool is_wide(const depthwise_alignment &alignment) const {
        return alignment.pairs
                && planes_are_wide(shape(), facts().of_weights());
    }

    const depthwise_planes planes_;
};

} // namespace

plan_or_refusal make_depthwise_planes(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    const int64_t element_bytes = facts->element_bytes();
    depthwise_planes planes;
    if (facts->channels_last
            || !planes_take(facts->shape, element_bytes, facts->of_weights())
            || !(facts->of_weights()
                            ? cut_planes_weights(planes, facts->shape,
                                    element_bytes, facts->multiprocessors,
                                    depthwise_longest_chain)
                            : cut_planes(planes, facts->shape, element_bytes,
                                    facts->multiprocessors)))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<planes_plan>(std::move(*facts), planes), options);
}

} // namespace gradnn::gpu
