#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"

namespace gradnn::gpu {

namespace {

constexpr const char *takes
        = "NXC, windows of 9 points and more along W alone with strides and "
          "dilations of 1, 16 columns and more";

/// With tensors at multiples of 16 bytes, and without.
struct rows_nxc_cuts {
    depthwise_rows_nxc aligned, unaligned;

    const depthwise_rows_nxc &of(bool vectors) const {
        return vectors ? aligned : unaligned;
    }
};

class rows_nxc_plan final : public depthwise_plan {
public:
    rows_nxc_plan(depthwise_facts facts, const rows_nxc_cuts &cuts)
        : depthwise_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts;
    }
    void launch_data(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_rows_nxc_data(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }
    void launch_weights(const depthwise_pointers &pointers,
            const depthwise_alignment &alignment,
            const launch_stream &stream) const override {
        launch_depthwise_rows_nxc_weights(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }

    const rows_nxc_cuts cuts_;
};

bool cut_both(rows_nxc_cuts &cuts, const depthwise_facts &facts) {
    const int widest
            = facts.sum_bytes() == 4 && facts.both_divide(2, 1) ? 2 : 1;
    const auto cut = [&](depthwise_rows_nxc &rows, int vector) {
        rows.vector = vector;
        return facts.of_weights() ? cut_rows_nxc_weights(rows, facts.shape,
                       widest, facts.multiprocessors, depthwise_longest_chain)
                                  : cut_rows_nxc(rows, facts.shape, widest,
                                          facts.multiprocessors);
    };
    return cut(cuts.aligned, widest) && cut(cuts.unaligned, 1);
}

} // namespace

plan_or_refusal make_depthwise_rows_nxc(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = depthwise_facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    rows_nxc_cuts cuts;
    if (!facts->channels_last || !rows_nxc_take(facts->shape)
            || !cut_both(cuts, *facts))
        return refuse_depthwise(takes, *facts);
    return depthwise_plan_or_refusal(
            std::make_unique<rows_nxc_plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu
