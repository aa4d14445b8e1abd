#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu/convolution/weights_sum.hpp"
#include "gpu/jit/load.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "kernel/argument_bytes.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::sliding {

using detail::text;

namespace {

constexpr const char *name = "convolution.gpu_sliding";
constexpr int vectors = 16; ///< bytes that tensors are expected at multiples of

template <typename Specification>
jit::kernel_launch launch_of(
        const char *file, const char *entry, const Specification &s) {
    const auto g = geometry_of(s);
    return {{file, text_of(s), entry}, g.grid, s.cut.threads,
            static_cast<size_t>(g.shared_bytes)};
}

/// The kernels for tensors at multiples of so many bytes: compiled when they are first
/// needed.
class variant {
public:
    explicit variant(const convolution_problem &problem)
        : problem_(problem),
          read_(is_to_src(problem) ? 2 : 0),
          written_(2 - read_) {}

    /// Of gradients of weights, each weight in so many partial sums.
    void may_be(jit::kernel_launch launch, int64_t parts = 0) {
        tried_.push_back(std::move(launch));
        parts_.push_back(parts);
    }

    bool is_empty() const { return tried_.empty(); }
    size_t workspace_bytes() const {
        return partial_weights_bytes(problem_, std::ranges::max(parts_));
    }
    /// Which of the kernels was taken.
    size_t taken() const { return taken_; }

    /// The reason if there is no kernel; empty if there is.
    std::string compile(const compile_options &options) {
        std::string refusal;
        const auto taken = jit::load_without_spills(tried_, options, refusal);
        if (!taken) return refusal;
        taken_ = *taken;
        if (parts_[taken_] > 0)
            add_parts_ = weights_sum_launcher("convolution.gpu_sliding (parts)",
                    problem_, parts_[taken_], true);
        return {};
    }

    void launch(const launch_stream &stream, std::span<void *const> args,
            std::byte *workspace) const {
        const jit::kernel_launch &kernel = tried_[taken_];
        if (add_parts_) {
            kernel(name, stream, args[0], args[2], workspace);
            add_parts_({args[0], args[1], args[2], workspace}, stream);
            return;
        }
        fused_places others {};
        for (size_t i = 3; i < args.size(); ++i)
            others.epilogue[i - 3] = static_cast<const char *>(args[i])
                    - static_cast<const char *>(args[written_]);
        kernel(name, stream, args[read_], args[1], args[written_], others);
    }

private:
    const convolution_problem problem_;
    const size_t read_, written_;
    std::vector<jit::kernel_launch> tried_;
    std::vector<int64_t> parts_;
    size_t taken_ = 0;
    launcher add_parts_; ///< of gradients of weights
};

/// Of all forms of a problem the specifications of least cost, best first: those tried
/// until one spills no registers, or the one of that number alone. Empty where there are
/// none.
template <typename Specification>
std::vector<Specification> tried_of(
        const std::vector<problem_specification> &forms, const gpu_facts &gpu,
        std::vector<choice<Specification>> (*choices_of)(
                const problem_specification &, const gpu_facts &),
        bool alone, size_t number) {
    constexpr size_t most_tried = 3, most_measured = 6;
    std::vector<choice<Specification>> choices;
    for (const problem_specification &form : forms)
        for (const choice<Specification> &each : choices_of(form, gpu))
            choices.push_back(each);
    std::ranges::stable_sort(choices, {}, &choice<Specification>::cost);
    const size_t first = alone ? number : 0;
    const size_t end = std::min(choices.size(),
            !alone                           ? most_tried
                    : number < most_measured ? number + 1
                                             : 0);
    std::vector<Specification> tried;
    for (size_t i = first; i < end; ++i)
        tried.push_back(choices[i].specification);
    return tried;
}

std::unique_ptr<variant> variant_of(const convolution_problem &problem,
        const std::vector<problem_specification> &forms, const gpu_facts &gpu,
        bool alone, size_t number) {
    auto made = std::make_unique<variant>(problem);
    if (is_of_weights(problem)) {
        // Cut alike wherever the tensors begin: the order of a sum follows from the cut.
        auto aligned = forms;
        for (problem_specification &form : aligned)
            form.alignment = vectors;
        for (weights_specification &each :
                tried_of(aligned, gpu, weights_choices, alone, number)) {
            each.of.alignment = forms.front().alignment;
            // Rows that are loaded element by element may be too many loads.
            if (!geometry_of(each).fits) return nullptr;
            made->may_be(launch_of("gpu/convolution/sliding/weights_kernel.cuh",
                                 "gradnn_slide_weights", each),
                    each.cut.parts);
        }
    } else {
        for (const data_specification &each :
                tried_of(forms, gpu, data_choices, alone, number))
            made->may_be(launch_of("gpu/convolution/sliding/data_kernel.cuh",
                    "gradnn_slide_data", each));
    }
    if (made->is_empty()) return nullptr;
    return made;
}

class sliding_plan final : public kernel_plan {
public:
    /// Of tensors at multiples of 16 bytes, compiled, and of others.
    sliding_plan(std::unique_ptr<variant> aligned,
            std::unique_ptr<variant> others, const compile_options &options)
        : aligned_(std::move(aligned)),
          others_(std::move(others)),
          options_(options) {}

    size_t workspace_bytes() const override {
        return std::max(
                aligned_->workspace_bytes(), others_->workspace_bytes());
    }

private:
    void submit(std::span<void *const> args, std::byte *workspace,
            const launch_stream &stream) const override {
        // Weights are loaded one by one.
        bool aligned = true;
        for (size_t i = 0; i < args.size(); ++i)
            aligned = aligned && (i == 1 || is_aligned(args[i], vectors));
        if (aligned) {
            aligned_->launch(stream, args, workspace);
            return;
        }
        std::call_once(others_compiled_, [&] {
            const std::string refusal = others_->compile(options_);
            if (!refusal.empty())
                throw error(status::runtime_error,
                        text(name,
                                ": no kernel for tensors that do not begin "
                                "at a multiple of 16 bytes: ",
                                refusal));
        });
        others_->launch(stream, args, workspace);
    }

    const std::unique_ptr<variant> aligned_, others_;
    const compile_options options_;
    mutable std::once_flag others_compiled_;
};

} // namespace

plan_or_refusal make(
        const convolution_problem &problem, const compile_options &options) {
    return make_fused({problem}, options);
}

plan_or_refusal make_fused(const detail::fused_convolution &whole,
        const compile_options &options) {
    const convolution_problem &problem = whole.problem;
    if (!options.specialise)
        return plan_or_refusal::refuse(
                "takes problems that kernels may be compiled for, and the "
                "setting `specialise` is off");
    std::string refusal;
    const auto device = static_cast<int>(options.device);
    const gpu_facts &gpu = properties_of(device);
    const bool bulk_copies = can_start_early(device);
    const auto aligned
            = specifications_of(whole, vectors, bulk_copies, refusal);
    const auto others = specifications_of(whole,
            static_cast<int>(detail::size_of(problem.src.type)), bulk_copies,
            refusal);
    if (aligned.empty()) return plan_or_refusal::refuse(refusal);
    std::vector<std::unique_ptr<sliding_plan>> plans;
    // By measuring one plan for each way to cut the work; else the best by estimate.
    for (size_t way = 0;; ++way) {
        auto first = variant_of(problem, aligned, gpu, options.autotune, way);
        if (!first) break;
        refusal = first->compile(options);
        if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
        const size_t taken = options.autotune ? way : first->taken();
        auto second = is_of_weights(problem)
                ? variant_of(problem, others, gpu, true, taken)
                : variant_of(problem, others, gpu, false, 0);
        if (!second) break;
        plans.push_back(std::make_unique<sliding_plan>(
                std::move(first), std::move(second), options));
        if (!options.autotune) break;
    }
    if (plans.empty())
        return detail::refuse("windows whose taps fit in registers", problem);
    std::vector<const detail::plan *> timed;
    for (const auto &each : plans)
        timed.push_back(each.get());
    const size_t best
            = fastest_of(timed, detail::argument_bytes(whole), options);
    return within_workspace_limit(std::move(plans[best]), options, "its sums");
}

} // namespace gradnn::gpu::sliding
