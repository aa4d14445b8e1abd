// What the plans of all depthwise families share: the facts of a problem by which
// they decide, and an execute that finds out how the tensors are aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/launch.hpp"
#include "gpu/kernels.hpp"

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
    /// Of src and dst alike: vectors of `count` elements along an axis begin at
    /// multiples of their size, wherever the tensor does.
    bool both_divide(int64_t count, size_t axis) const;
    /// f16 and bf16, all tensors alike. Tensor cores truncate when they add: not
    /// for weights in f32.
    bool tensor_cores_suit() const;
};

/// Facts of a problem that some family may take; else the reason, in `refusal`.
std::optional<problem_facts> facts_of(const convolution_problem &,
        const compile_options &, std::string &refusal);

/// Whether vectors of `count` elements along an axis begin at multiples of their
/// size in a tensor that does.
bool vectors_divide(
        int64_t count, const detail::tensor_view &tensor, size_t axis);

/// A family's plan. Partial sums of the weights' gradient go to the workspace;
/// parts.cu adds them up.
class family_plan : public detail::plan {
public:
    explicit family_plan(problem_facts facts) : facts_(std::move(facts)) {}

    size_t workspace_bytes() const final;
    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const final;
    std::string backend() const final { return "CUDA"; }

private:
    /// Of the gradient of the weights: partial sums of a weight, with tensors at
    /// multiples of 16 bytes or not.
    virtual int64_t parts(bool vectors) const = 0;
    /// Sums that the other directions keep in the workspace, for each channel.
    virtual int64_t data_sums() const = 0;
    virtual void launch(const execution &) const = 0;

protected:
    const problem_facts facts_;
};

/// Partial sums of a weight, by a family's cut.
template <typename Cut>
int64_t parts_of(const Cut &cut) {
    if constexpr (requires { cut.parts(); })
        return cut.parts();
    else
        return cut.parts;
}

/// What a family gives for its row of the kernel list. A Cut says how the work is
/// cut.
template <typename Cut>
struct family {
    const char *takes; ///< which problems, for refusals
    /// Cuts the work, with tensors at multiples of 16 bytes or not. False for a
    /// problem that the family does not take.
    bool (*cut)(Cut &, const problem_facts &, bool vectors);
    bool cuts_by_alignment; ///< else one cut serves both
    void (*launch_data)(const execution &, const Cut &);
    /// Leaves sums[weight][part] in the workspace, weights counted C, D, H, W.
    void (*launch_weights)(const execution &, const Cut &);
    /// As family_plan::data_sums, where there are such.
    int64_t (*data_sums)(const problem_shape &) = nullptr;
};

template <typename Cut>
class plan_of final : public family_plan {
public:
    plan_of(problem_facts facts, const family<Cut> &family, const Cut &aligned,
            const Cut &unaligned)
        : family_plan(std::move(facts)),
          family_(family),
          aligned_(aligned),
          unaligned_(unaligned) {}

private:
    const Cut &cut(bool vectors) const {
        return vectors ? aligned_ : unaligned_;
    }
    int64_t parts(bool vectors) const override {
        return parts_of(cut(vectors));
    }
    int64_t data_sums() const override {
        return family_.data_sums == nullptr ? 0
                                            : family_.data_sums(facts_.shape);
    }
    void launch(const execution &on) const override {
        const auto of_direction = facts_.of_weights() ? family_.launch_weights
                                                      : family_.launch_data;
        of_direction(on, cut(on.alignment.vectors));
    }

    const family<Cut> family_;
    const Cut aligned_, unaligned_;
};

/// The plan within the workspace limit, or why there is none.
plan_or_refusal within_limit(
        std::unique_ptr<family_plan>, const compile_options &);
/// "takes X, given Y".
plan_or_refusal refuse(const char *takes, const problem_facts &);

/// A family's plan.
template <typename Cut>
plan_or_refusal make_plan(const family<Cut> &family,
        const convolution_problem &problem, const compile_options &options) {
    std::string refusal;
    auto facts = facts_of(problem, options, refusal);
    if (!facts) return plan_or_refusal::refuse(refusal);
    Cut aligned, unaligned;
    if (!family.cut(aligned, *facts, true)
            || (family.cuts_by_alignment
                    && !family.cut(unaligned, *facts, false)))
        return refuse(family.takes, *facts);
    if (!family.cuts_by_alignment) unaligned = aligned;
    return within_limit(std::make_unique<plan_of<Cut>>(
                                std::move(*facts), family, aligned, unaligned),
            options);
}

} // namespace gradnn::gpu::depthwise
