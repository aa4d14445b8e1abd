// What the plans of all depthwise families share: the facts of a problem by which
// they decide, and an execute that finds out how the tensors are aligned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/multiprocessor.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::depthwise {

/// A problem of groups of one channel, as the families see it.
struct problem_facts {
    detail::convolution_problem problem;
    problem_shape shape;
    bool channels_last = false; ///< NXC; else NCX
    int device = 0;
    int64_t multiprocessors = 1;
    int64_t block_shared_bytes = 0; ///< that a block may have
    multiprocessor sm;

    bool of_weights() const;
    int64_t element_bytes() const;
    int64_t sum_bytes() const; ///< 8 for f64, else 4
    /// f16 or bf16, the same in all tensors. Not f32 weights, since tensor cores
    /// truncate when they add.
    bool tensor_cores_suit() const;
};

/// Facts of a problem that some family may take; else the reason, in `refusal`.
std::optional<problem_facts> facts_of(const convolution_problem &,
        const compile_options &, std::string &refusal);

/// A family's plan. Partial sums of the weights' gradient go to the workspace; parts.cu
/// adds them up.
class family_plan final : public kernel_plan {
public:
    /// What is launched where src and dst are aligned in one way.
    struct launches {
        launcher first;
        launcher parts; ///< of the weights' gradient
        /// Sums kept in the workspace: of the weights' gradient for each weight, of
        /// data for each channel.
        int64_t sums = 0;
    };
    /// By tensors at multiples of one element, of two, of 16 bytes.
    using launches_by_alignment = std::array<launches, 3>;

    family_plan(const problem_facts &facts, launches_by_alignment by_alignment);

    size_t workspace_bytes() const override { return workspace_bytes_; }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override;

    const launches_by_alignment by_alignment_;
    const size_t element_bytes_;
    size_t workspace_bytes_ = 0;
};

/// The launches of a family, whose Cut says how the work is cut and, for refusals, which
/// problems it takes (Cut::takes). Beside it, in the family's namespace, are
///
///     bool cut(Cut &, const problem_facts &, bool vectors);
///     launcher data_launcher(const launch_facts &, const Cut &);
///     launcher weights_launcher(const launch_facts &, const Cut &);
///
/// cut is false for a problem that the family does not take; `vectors` are tensors
/// at multiples of 16 bytes, and one cut serves both where it has no such argument.
/// The weights' launch leaves sums[weight][part] in the workspace, weights counted C,
/// D, H, W, parts by Cut::parts; data keep Cut::data_sums there, where there are such.
template <typename Cut>
family_plan::launches launches_of(const problem_facts &facts, const Cut &work,
        tensor_alignment alignment) {
    const launch_facts seen {facts.problem.src.type, facts.shape, alignment};
    if (!facts.of_weights()) {
        int64_t sums = 0;
        if constexpr (requires { work.data_sums; }) sums = work.data_sums;
        return {data_launcher(seen, work), {}, sums};
    }
    int64_t parts = 0;
    if constexpr (requires { work.parts(); })
        parts = work.parts();
    else
        parts = work.parts;
    return {weights_launcher(seen, work),
            parts_launcher(seen, parts, facts.problem.weights.type), parts};
}

/// A family's plan, or a refusal.
template <typename Cut>
plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    const auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    std::array<Cut, 2> work; // by whether tensors are at multiples of 16 bytes
    bool taken = false;
    if constexpr (requires { cut(work[0], *facts, true); }) {
        taken = cut(work[0], *facts, false) && cut(work[1], *facts, true);
    } else {
        taken = cut(work[0], *facts);
        work[1] = work[0];
    }
    if (!taken) return detail::refuse(Cut::takes, problem);
    return within_workspace_limit(
            std::make_unique<family_plan>(*facts,
                    family_plan::launches_by_alignment {
                            launches_of(*facts, work[0], {false, false}),
                            launches_of(*facts, work[0], {false, true}),
                            launches_of(*facts, work[1], {true, true})}),
            options, "its sums");
}

} // namespace gradnn::gpu::depthwise
