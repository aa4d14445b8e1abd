// What the plans of all depthwise families share: the facts of a problem by which
// they decide, and an execute that finds out how the tensors are aligned.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/device/rounding.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "problem_text.hpp"

namespace gradnn::gpu::depthwise {

/// A problem of groups of one channel, as the families see it.
struct problem_facts {
    detail::convolution_problem problem;
    problem_shape shape;
    bool channels_last = false; ///< NXC; else NCX
    int device = 0;
    int64_t multiprocessors = 1;
    int64_t block_shared_bytes = 0; ///< that a block may have

    bool of_weights() const;
    int64_t element_bytes() const;
    int64_t sum_bytes() const; ///< 8 for f64, else 4
    /// In src and in dst, vectors of `count` elements along an axis begin at
    /// multiples of their size if the tensor does.
    bool both_divide(int64_t count, size_t axis) const;
    /// f16 or bf16, the same in all tensors. Not f32 weights, since tensor cores
    /// truncate when they add.
    bool tensor_cores_suit() const;
};

/// Facts of a problem that some family may take; else the reason, in `refusal`.
std::optional<problem_facts> facts_of(const convolution_problem &,
        const compile_options &, std::string &refusal);

/// Whether vectors of `count` elements along an axis begin at multiples of their
/// size if the tensor does.
bool vectors_divide(
        int64_t count, const detail::tensor_view &tensor, size_t axis);

/// What kernels count in 32 bits.
constexpr bool fits(int64_t count) {
    return count < INT32_MAX;
}

/// Calls body(size, pieces) for `count` in pieces of even size, of `longest` at most,
/// the longest first.
template <typename Body>
void for_each_cut(int count, int longest, const Body &body) {
    for (int size = std::min(count, longest); size > 0; --size) {
        const int pieces = ceil_div(count, size);
        body(ceil_div(count, pieces), pieces);
    }
}

/// A family's plan. Partial sums of the weights' gradient go to the workspace;
/// parts.cu adds them up.
class family_plan : public kernel_plan {
public:
    explicit family_plan(problem_facts facts) : facts_(std::move(facts)) {}

    size_t workspace_bytes() const final;

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const final;
    /// Sums that a direction keeps in the workspace, with tensors at multiples of
    /// 16 bytes or not: of the weights' gradient for each weight, of data for each
    /// channel.
    virtual int64_t sums(bool vectors) const = 0;
    virtual void launch(const execution &) const = 0;

protected:
    const problem_facts facts_;
};

/// The plan of a family, whose Cut says how the work is cut and, for refusals, which
/// problems it takes (Cut::takes). Beside it, in the family's namespace, are
///
///     bool cut(Cut &, const problem_facts &, bool vectors);
///     void launch_data(const execution &, const Cut &);
///     void launch_weights(const execution &, const Cut &);
///
/// cut is false for a problem that the family does not take; `vectors` are tensors
/// at multiples of 16 bytes, and one cut serves both where it has no such argument.
/// launch_weights leaves sums[weight][part] in the workspace, weights counted C, D,
/// H, W, parts by Cut::parts; data keep Cut::data_sums there, where there are such.
template <typename Cut>
class plan_of final : public family_plan {
public:
    /// By whether tensors are at multiples of 16 bytes.
    using cuts = std::array<Cut, 2>;

    plan_of(problem_facts facts, const cuts &work)
        : family_plan(std::move(facts)), cuts_(work) {}

private:
    int64_t sums(bool vectors) const override {
        const Cut &work = cuts_[vectors ? 1 : 0];
        if (!facts_.of_weights()) {
            if constexpr (requires { work.data_sums; }) return work.data_sums;
            return 0;
        }
        if constexpr (requires { work.parts(); })
            return work.parts();
        else
            return work.parts;
    }
    void launch(const execution &on) const override {
        const Cut &work = cuts_[on.alignment.vectors ? 1 : 0];
        if (facts_.of_weights())
            launch_weights(on, work);
        else
            launch_data(on, work);
    }

    const cuts cuts_;
};

/// A family's plan, or a refusal.
template <typename Cut>
plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    typename plan_of<Cut>::cuts work;
    bool taken = false;
    if constexpr (requires { cut(work[0], *facts, true); }) {
        taken = cut(work[0], *facts, false) && cut(work[1], *facts, true);
    } else {
        taken = cut(work[0], *facts);
        work[1] = work[0];
    }
    if (!taken) return detail::refuse(Cut::takes, problem);
    return within_workspace_limit(
            std::make_unique<plan_of<Cut>>(std::move(*facts), work), options,
            "its sums");
}

} // namespace gradnn::gpu::depthwise
