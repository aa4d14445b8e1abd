#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "gpu/interpolation/resample/cuts.hpp"
#include "gpu/interpolation/resample/generic.hpp"
#include "gpu/jit/load.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/kernel_plan.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "kernel/argument_bytes.hpp"

namespace gradnn::gpu::resample {

namespace {

constexpr const char *name = "interpolation.gpu_resample";
constexpr int vectors = 16; ///< bytes that tensors are expected at multiples of
constexpr size_t most_tried = 3; ///< kernels, until one spills no registers

/// A problem in one of its forms, with its maps on the device.
struct resident_form {
    mapped_problem of;
    std::shared_ptr<const device_tables> map;
};

jit::kernel_launch launch_of(
        const specification_of_kernel &s, int multiprocessors) {
    const geometry g = geometry_of(s);
    return {{"gpu/interpolation/resample/kernel.cuh", text_of(s),
                    "gradnn_resample"},
            s.cut_by.stages > 0
                    ? std::min(g.grid, multiprocessors * s.cut_by.blocks)
                    : g.grid,
            s.cut_by.threads, static_cast<size_t>(g.shared_bytes)};
}

/// Of tensors at multiples of so many bytes: the first of some kernels that spills no
/// registers, or what takes everything.
class variant {
public:
    variant(resident_form form, std::vector<jit::kernel_launch> tried)
        : form_(std::move(form)), tried_(std::move(tried)) {}

    /// Without a compiler what takes everything remains.
    void compile(const compile_options &options) {
        std::string refusal;
        taken_ = jit::load_without_spills(tried_, options, refusal);
    }

    void launch(
            const launch_stream &stream, std::span<void *const> args) const {
        const problem_specification &p = form_.of.specification;
        fused_places others {};
        size_t next = 2;
        const auto bytes_from = [&](size_t tensor) {
            return static_cast<const char *>(args[next++])
                    - static_cast<const char *>(args[tensor]);
        };
        if (p.prologue != fused_op::none) others.prologue = bytes_from(0);
        for (int e = 0; e < epilogues_of(p); ++e)
            others.epilogue[e] = bytes_from(1);
        if (!taken_)
            launch_generic(
                    name, p, *form_.map, stream, args[0], args[1], others);
        else if (p.type == element::f64)
            tried_[*taken_](name, stream, static_cast<const void *>(args[0]),
                    args[1], form_.map->as<double>(others));
        else
            tried_[*taken_](name, stream, static_cast<const void *>(args[0]),
                    args[1], form_.map->as<float>(others));
    }

private:
    const resident_form form_;
    std::vector<jit::kernel_launch> tried_;
    std::optional<size_t> taken_;
};

/// All forms of a problem, for tensors at multiples of so many bytes, and the choices among
/// them.
class variants {
public:
    variants(std::vector<resident_form> forms, int alignment,
            const compile_options &options)
        : forms_(std::move(forms)),
          gpu_(properties_of(static_cast<int>(options.device))) {
        std::vector<mapped_problem> problems;
        for (resident_form &each : forms_) {
            each.of.specification.alignment = alignment;
            problems.push_back(each.of);
        }
        if (options.specialise) choices_ = choices_of(problems, gpu_);
    }
    size_t count() const { return std::max<size_t>(1, choices_.size()); }

    /// The best `tried` ones from a number on, of the form of the first.
    std::unique_ptr<variant> from(size_t number, size_t tried) const {
        const size_t form = choices_.empty() ? 0 : choices_[number].form;
        std::vector<jit::kernel_launch> all;
        for (size_t i = number; i < choices_.size() && all.size() < tried; ++i)
            if (choices_[i].form == form)
                all.push_back(launch_of(
                        choices_[i].specification, gpu_.multiprocessors));
        return std::make_unique<variant>(forms_[form], std::move(all));
    }

private:
    std::vector<resident_form> forms_;
    gpu_facts gpu_;
    std::vector<choice> choices_;
};

class resample_plan final : public kernel_plan {
public:
    /// Of tensors at multiples of 16 bytes, compiled; that of others is made when they are met.
    resample_plan(std::unique_ptr<variant> aligned,
            std::vector<resident_form> forms, const compile_options &options)
        : aligned_(std::move(aligned)),
          forms_(std::move(forms)),
          options_(options) {}

    size_t workspace_bytes() const override { return 0; }

private:
    void submit(std::span<void *const> args, std::byte * /*workspace*/,
            const launch_stream &stream) const override {
        if (std::ranges::all_of(args,
                    [](void *each) { return is_aligned(each, vectors); })) {
            aligned_->launch(stream, args);
            return;
        }
        std::call_once(others_made_, [&] {
            const int alignment = bytes_of(forms_[0].of.specification.type);
            others_ = variants(forms_, alignment, options_).from(0, most_tried);
            others_->compile(options_);
        });
        others_->launch(stream, args);
    }

    const std::unique_ptr<variant> aligned_;
    const std::vector<resident_form> forms_;
    const compile_options options_;
    mutable std::unique_ptr<variant> others_;
    mutable std::once_flag others_made_;
};

} // namespace

plan_or_refusal make(
        const interpolation_problem &problem, const compile_options &options) {
    return make_fused({problem}, options);
}

plan_or_refusal make_fused(const detail::fused_interpolation &problem,
        const compile_options &options) {
    constexpr size_t most_measured = 6;
    std::string refusal;
    const auto device = static_cast<int>(options.device);
    std::vector<resident_form> forms;
    for (mapped_problem &each : specifications_of(
                 problem, vectors, can_start_early(device), refusal)) {
        auto map = std::make_shared<const device_tables>(device, each);
        forms.push_back({std::move(each), std::move(map)});
    }
    if (forms.empty()) return plan_or_refusal::refuse(refusal);
    const variants aligned(forms, vectors, options);
    // By measuring one plan for each way to cut the work; else the best by estimate.
    std::vector<std::unique_ptr<resample_plan>> plans;
    const size_t count
            = options.autotune ? std::min(aligned.count(), most_measured) : 1;
    for (size_t i = 0; i < count; ++i) {
        auto first = aligned.from(i, options.autotune ? 1 : most_tried);
        first->compile(options);
        plans.push_back(std::make_unique<resample_plan>(
                std::move(first), forms, options));
    }
    std::vector<const detail::plan *> timed;
    for (const auto &each : plans)
        timed.push_back(each.get());
    return std::move(
            plans[fastest_of(timed, detail::argument_bytes(problem), options)]);
}

} // namespace gradnn::gpu::resample
