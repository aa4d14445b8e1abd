#include <memory>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/plan.hpp"
#include "gpu/convolution/depthwise/rows_nxc/cut.hpp"

namespace gradnn::gpu::depthwise::rows_nxc {

namespace {

constexpr const char *what_it_takes
        = "NXC, windows of 9 points and more along W alone with strides and "
          "dilations of 1, 16 columns and more";

using plan = two_cut_plan<work_cut, rows_nxc::launch_data,
        rows_nxc::launch_weights>;

bool cut_both(both_cuts<work_cut> &cuts, const problem_facts &facts) {
    const int widest
            = facts.sum_bytes() == 4 && facts.both_divide(2, 1) ? 2 : 1;
    const auto cut = [&](work_cut &rows, int vector) {
        rows.vector = vector;
        return facts.of_weights()
                ? cut_weights(rows, facts.shape, widest, facts.multiprocessors,
                        longest_f32_chain)
                : cut_data(rows, facts.shape, widest, facts.multiprocessors);
    };
    return cut(cuts.aligned, widest) && cut(cuts.unaligned, 1);
}

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    both_cuts<work_cut> cuts;
    if (!facts->channels_last || !takes(facts->shape)
            || !cut_both(cuts, *facts))
        return refuse(what_it_takes, *facts);
    return plan_within_limit(
            std::make_unique<plan>(std::move(*facts), cuts), options);
}

} // namespace gradnn::gpu::depthwise::rows_nxc
