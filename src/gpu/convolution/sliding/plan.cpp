#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/convolution/makers.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu/convolution/sliding/problem_specification.hpp"
#include "gpu/jit/load.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "kernel/argument_bytes.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::sliding {

using detail::convolution_direction;
using detail::text;

namespace {

constexpr const char *name = "convolution.gpu_sliding";
constexpr int vectors = 16; ///< bytes that tensors are expected at multiples of

/// A kernel with its launch.
struct launchable {
    std::shared_ptr<const jit::compiled_kernel> kernel;
    int64_t grid = 0;
    int threads = 0;
    size_t shared_bytes = 0;

    template <typename... Arguments>
    void operator()(const launch_stream &stream, Arguments... arguments) const {
        jit::launch_early(name, *kernel, grid, threads, shared_bytes, stream,
                arguments...);
    }
};

/// The kernels for tensors at multiples of so many bytes: compiled when they are first
/// needed.
class variant {
public:
    virtual ~variant() = default;
    virtual size_t workspace_bytes() const { return 0; }
    /// The reason if there is no kernel; empty if there is.
    virtual std::string compile(const compile_options &options) = 0;
    /// Which of the specifications was compiled and taken.
    virtual size_t taken() const { return 0; }
    virtual void launch(const launch_stream &stream,
            std::span<void *const> args, std::byte *workspace) const = 0;
};

/// Loads an entry of a source; the reason if that fails.
std::string load(launchable &to, const char *source, const char *entry,
        const std::string &specification, const compile_options &options) {
    const jit::kernel_or_refusal loaded
            = jit::load({source, specification, entry}, options);
    if (!loaded.kernel) return loaded.refusal;
    to.kernel = loaded.kernel;
    if (to.shared_bytes + to.kernel->static_shared_bytes
            > default_block_shared_bytes) {
        const allocation_guard guard(static_cast<int>(options.device));
        allow_shared_bytes(to.kernel->function, to.shared_bytes);
    }
    return {};
}

class data_variant final : public variant {
public:
    data_variant(std::vector<data_specification> tried, bool to_src)
        : tried_(std::move(tried)),
          read_(to_src ? 2 : 0),
          written_(2 - read_) {}

    std::string compile(const compile_options &options) override {
        std::string refusal;
        launchable best;
        for (const data_specification &each : tried_) {
            const data_geometry g = geometry_of(each);
            launchable made {nullptr, g.grid, each.cut.threads,
                    static_cast<size_t>(g.shared_bytes)};
            refusal = load(made, "gpu/convolution/sliding/data_kernel.cuh",
                    "gradnn_slide_data", text_of(each), options);
            if (!refusal.empty()) return refusal;
            if (!best.kernel
                    || made.kernel->local_bytes < best.kernel->local_bytes)
                best = made;
            if (made.kernel->local_bytes == 0) break;
        }
        kernel_ = best;
        return {};
    }
    void launch(const launch_stream &stream, std::span<void *const> args,
            std::byte * /*workspace*/) const override {
        fused_places others {};
        for (size_t i = 3; i < args.size(); ++i)
            others.epilogue[i - 3] = static_cast<const char *>(args[i])
                    - static_cast<const char *>(args[written_]);
        kernel_(stream, args[read_], args[1], args[written_], others);
    }

private:
    const std::vector<data_specification> tried_;
    const size_t read_, written_;
    launchable kernel_;
};

class weights_variant final : public variant {
public:
    explicit weights_variant(std::vector<weights_specification> tried)
        : tried_(std::move(tried)) {}

    size_t workspace_bytes() const override {
        size_t most = 0;
        for (const weights_specification &each : tried_)
            most = std::max(most,
                    static_cast<size_t>(each.cut.parts) * weights_of(each.of)
                            * static_cast<size_t>(sum_bytes_of(each.of.type)));
        return most;
    }
    size_t taken() const override { return taken_; }
    std::string compile(const compile_options &options) override {
        std::string refusal;
        for (size_t i = 0; i < tried_.size(); ++i) {
            const weights_specification &each = tried_[i];
            const weights_geometry g = geometry_of(each);
            launchable made {nullptr, g.grid, each.cut.threads,
                    static_cast<size_t>(g.shared_bytes)};
            const std::string specification = text_of(each);
            constexpr const char *source
                    = "gpu/convolution/sliding/weights_kernel.cuh";
            refusal = load(made, source, "gradnn_slide_weights", specification,
                    options);
            if (!refusal.empty()) return refusal;
            if (sums_.kernel
                    && made.kernel->local_bytes >= sums_.kernel->local_bytes)
                continue;
            parts_ = {jit::beside(*made.kernel, "gradnn_add_parts",
                              static_cast<int>(options.device)),
                    ceil_div(static_cast<int64_t>(weights_of(each.of)), 32),
                    256, 0};
            sums_ = made;
            taken_ = i;
            if (made.kernel->local_bytes == 0) break;
        }
        return {};
    }
    void launch(const launch_stream &stream, std::span<void *const> args,
            std::byte *workspace) const override {
        sums_(stream, args[0], args[2], workspace);
        parts_(stream, args[0], args[2], workspace, args[1]);
    }

private:
    static size_t weights_of(const problem_specification &p) {
        return static_cast<size_t>(p.channels)
                * static_cast<size_t>(p.multiplier)
                * static_cast<size_t>(
                        p.depth.taps * p.row.taps * p.column.taps);
    }

    const std::vector<weights_specification> tried_;
    size_t taken_ = 0;
    launchable sums_, parts_;
};

/// Of all forms of a problem the specifications of least cost, best first.
template <typename Specification>
std::vector<Specification> best_of(
        const std::vector<problem_specification> &forms, const gpu_facts &gpu,
        std::vector<choice<Specification>> (*choices_of)(
                const problem_specification &, const gpu_facts &)) {
    std::vector<choice<Specification>> choices;
    for (const problem_specification &form : forms)
        for (const choice<Specification> &each : choices_of(form, gpu))
            choices.push_back(each);
    std::stable_sort(choices.begin(), choices.end(),
            [](const auto &a, const auto &b) { return a.cost < b.cost; });
    std::vector<Specification> best;
    for (const auto &each : choices)
        best.push_back(each.specification);
    return best;
}

/// The kernels tried until one spills no registers: some of the best, or the one of that
/// number alone. Null where there are none.
template <typename Specification>
std::vector<Specification> tried_of(
        std::vector<Specification> best, bool alone, size_t number) {
    constexpr size_t most_tried = 3, most_measured = 6;
    if (!alone) {
        if (best.size() > most_tried) best.resize(most_tried);
        return best;
    }
    if (number >= std::min(best.size(), most_measured)) return {};
    return {best[number]};
}

std::unique_ptr<variant> variant_of(const convolution_problem &problem,
        const std::vector<problem_specification> &forms, const gpu_facts &gpu,
        bool alone, size_t number) {
    if (problem.direction == convolution_direction::backward_weights) {
        // Cut alike wherever the tensors begin: the order of a sum follows from the cut.
        auto aligned = forms;
        for (problem_specification &form : aligned)
            form.alignment = vectors;
        auto tried = tried_of(
                best_of(aligned, gpu, weights_choices), alone, number);
        if (tried.empty()) return nullptr;
        for (weights_specification &each : tried) {
            each.of.alignment = forms.front().alignment;
            // Rows that are loaded element by element may be too many loads.
            if (!geometry_of(each).fits) return nullptr;
        }
        return std::make_unique<weights_variant>(std::move(tried));
    }
    auto tried = tried_of(best_of(forms, gpu, data_choices), alone, number);
    if (tried.empty()) return nullptr;
    return std::make_unique<data_variant>(std::move(tried),
            problem.direction == convolution_direction::backward_data);
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
    const gpu_facts gpu = facts_of(properties_of(device));
    const bool bulk_copies = can_start_early(device);
    const auto aligned
            = specifications_of(whole, vectors, bulk_copies, refusal);
    const auto others = specifications_of(whole,
            static_cast<int>(detail::size_of(problem.src.type)), bulk_copies,
            refusal);
    if (aligned.empty()) return plan_or_refusal::refuse(refusal);
    const bool of_weights
            = problem.direction == convolution_direction::backward_weights;
    std::vector<std::unique_ptr<sliding_plan>> plans;
    // By measuring one plan for each way to cut the work; else the best by estimate.
    for (size_t way = 0;; ++way) {
        auto first = variant_of(problem, aligned, gpu, options.autotune, way);
        if (!first) break;
        refusal = first->compile(options);
        if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
        const size_t taken = options.autotune ? way : first->taken();
        auto second = of_weights ? variant_of(problem, others, gpu, true, taken)
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
    auto bytes = detail::argument_bytes(problem);
    bytes.insert(bytes.end(), whole.epilogue.size(),
            bytes[output_of(problem.direction)]);
    const size_t best = fastest_of(timed, bytes, options);
    return within_workspace_limit(std::move(plans[best]), options, "its sums");
}

} // namespace gradnn::gpu::sliding
