// What the plans of all depthwise families share: the facts of a problem by which
// they decide, and an execute that finds out how the tensors are aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "gpu/convolution/depthwise/shape.hpp"
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
    /// "given f32 NCX, window 1x3x3, ...".
    std::string given() const;
};

/// Facts of a problem that some family may take; else the reason, in `refusal`.
std::optional<problem_facts> facts_of(const convolution_problem &,
        const compile_options &, std::string &refusal);

/// Whether vectors of `count` elements along an axis begin at multiples of their
/// size in a tensor that does.
bool vectors_divide(
        int64_t count, const detail::tensor_view &tensor, size_t axis);

/// How src and dst lie at an execution.
struct tensor_alignment {
    bool vectors = false; ///< at multiples of 16 bytes
    bool pairs = false; ///< at multiples of two elements
};

/// A family's plan. Partial sums of the weights' gradient go to the workspace;
/// depthwise/parts.cu adds them up.
class family_plan : public detail::plan {
public:
    explicit family_plan(problem_facts facts) : facts_(std::move(facts)) {}

    size_t workspace_bytes() const final;
    void execute(std::span<void *const> args, std::byte *workspace,
            detail::stream_impl &stream) const final;
    std::string backend() const final { return "CUDA"; }

protected:
    const problem_facts &facts() const { return facts_; }
    const problem_shape &shape() const { return facts_.shape; }
    detail::data_type type() const { return facts_.problem.src.type; }

private:
    /// Of the gradient of the weights: partial sums of a weight, with tensors at
    /// multiples of 16 bytes or not.
    virtual int64_t parts(bool vectors) const = 0;
    /// Sums that the other directions keep in the workspace, for each channel.
    virtual int64_t data_sums() const { return 0; }
    virtual void launch_data(const tensor_pointers &, const tensor_alignment &,
            const launch_stream &) const = 0;
    /// Leaves the parts' sums in the workspace.
    virtual void launch_weights(const tensor_pointers &,
            const tensor_alignment &, const launch_stream &) const = 0;

    const problem_facts facts_;
};

/// How work is cut for tensors at multiples of 16 bytes, and for others.
template <typename Cut>
struct both_cuts {
    Cut aligned, unaligned;

    const Cut &of(bool vectors) const { return vectors ? aligned : unaligned; }
};

/// The plan of a family whose cut has `parts` and says all that its launches need.
template <typename Cut, auto LaunchData, auto LaunchWeights>
class two_cut_plan final : public family_plan {
public:
    two_cut_plan(problem_facts facts, const both_cuts<Cut> &cuts)
        : family_plan(std::move(facts)), cuts_(cuts) {}

private:
    int64_t parts(bool vectors) const override {
        return cuts_.of(vectors).parts;
    }
    void launch_data(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        LaunchData(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }
    void launch_weights(const tensor_pointers &pointers,
            const tensor_alignment &alignment,
            const launch_stream &stream) const override {
        LaunchWeights(
                type(), shape(), cuts_.of(alignment.vectors), pointers, stream);
    }

    const both_cuts<Cut> cuts_;
};

/// A family's plan within the workspace limit.
plan_or_refusal plan_within_limit(
        std::unique_ptr<family_plan>, const compile_options &);

/// "takes X, given Y".
plan_or_refusal refuse(const char *takes, const problem_facts &);

} // namespace gradnn::gpu::depthwise
