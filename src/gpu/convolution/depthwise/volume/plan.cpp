#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/volume/cut.hpp"

namespace gradnn::gpu::depthwise::volume {

namespace {

constexpr const char *what_it_takes
        = "windows of 3x3x3 with strides and dilations of "
          "1, in NXC of more than one slice";

using plan = two_cut_plan<walk::work_cut, volume::launch_data,
        volume::launch_weights>;

bool cut(walk::work_cut &walk, const problem_facts &facts, bool vectors) {
    int widest = 1;
    walk.channels_last = facts.channels_last;
    walk.sum_bytes = static_cast<int>(facts.sum_bytes());
    if (facts.channels_last) {
        const int most = widest_vector(facts.element_bytes());
        if (facts.both_divide(most, 1)) widest = most;
    } else if (vectors) {
        walk.together = columns_together(facts.shape, facts.element_bytes());
    }
    walk.vector = vectors ? widest : 1;
    return facts.of_weights()
            ? volume::cut_weights(walk, facts.shape, widest,
                    facts.multiprocessors, longest_f32_chain)
            : volume::cut_data(walk, facts.shape, facts.multiprocessors);
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    both_cuts<walk::work_cut> cuts;
    if (!takes(facts->shape, facts->channels_last)
            || !cut(cuts.aligned, *facts, true)
            || !cut(cuts.unaligned, *facts, false))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu::depthwise::volume
