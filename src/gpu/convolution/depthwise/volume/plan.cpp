#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/volume/cut.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes = "windows of 3x3x3 with strides and dilations of "
                              "1, in NXC of more than one slice";

/// With tensors at multiples of 16 bytes, and without.
struct volume_cuts {
    depthwise_walk aligned, unaligned;

    const depthwise_walk &of(bool vectors) const {
        return vectors ? aligned : unaligned;
    }
};

class volume_plan final : public depthwise_plan {
public:
    volume_plan(depthwise_facts facts, const volume_cuts &cuts)
        : depthwise_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts;
    }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_volume_data(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_volume_weights(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }

    const volume_cuts cuts_;
};

bool cut(depthwise_walk &walk, const depthwise_facts &facts, bool vectors) {
    int widest = 1;
    walk.channels_last = facts.channels_last;
    walk.sum_bytes = static_cast<int>(facts.sum_bytes());
    if (facts.channels_last) {
        const int most = volume_vector(facts.element_bytes());
        if (facts.both_divide(most, 1)) widest = most;
    } else if (vectors) {
        walk.together = volume_together(facts.shape, facts.element_bytes());
    }
    walk.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? cut_volume_units(walk, facts.shape, widest, facts.multiprocessors,
                    depthwise_longest_chain)
            : cut_volume(walk, facts.shape, facts.multiprocessors);
}

} // namespace

plan_or_refusal make_depthwise_volume(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    volume_cuts cuts;
    if (!volume_takes(facts->shape, facts->channels_last)
            || !cut(cuts.aligned, *facts, true)
            || !cut(cuts.unaligned, *facts, false))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<volume_plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu
