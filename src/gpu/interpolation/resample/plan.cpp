#include <algorithm>
#include <memory>
#include <mutex>
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

/// Of tensors at multiples of so many bytes: the first of some kernels that spills no
/// registers, or what takes everything.
class variant {
public:
    variant(resident_form form, std::vector<specification_of_kernel> tried)
        : form_(std::move(form)), tried_(std::move(tried)) {}

    /// Without a compiler what takes everything remains.
    void compile(const compile_options &options) {
        for (const specification_of_kernel &each : tried_) {
            const auto loaded
                    = jit::load({"gpu/interpolation/resample/kernel.cuh",
                                        text_of(each), "gradnn_resample"},
                            options);
            if (!loaded.kernel) return;
            if (kernel_ && loaded.kernel->local_bytes >= kernel_->local_bytes)
                continue;
            kernel_ = loaded.kernel;
            const geometry g = geometry_of(each);
            const device_properties &device
                    = properties_of(static_cast<int>(options.device));
            grid_ = each.cut_by.stages > 0 ? std::min(
                            g.grid, device.multiprocessors * each.cut_by.blocks)
                                           : g.grid;
            threads_ = each.cut_by.threads;
            shared_bytes_ = static_cast<size_t>(g.shared_bytes);
            if (shared_bytes_ > default_block_shared_bytes) {
                const allocation_guard guard(static_cast<int>(options.device));
                allow_shared_bytes(kernel_->function, shared_bytes_);
            }
            if (kernel_->local_bytes == 0) return;
        }
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
        if (!kernel_)
            launch_generic(
                    name, p, *form_.map, stream, args[0], args[1], others);
        else if (p.type == element::f64)
            launch_compiled<double>(stream, args, others);
        else
            launch_compiled<float>(stream, args, others);
    }

private:
    template <typename Sum>
    void launch_compiled(const launch_stream &stream,
            std::span<void *const> args, const fused_places &others) const {
        jit::launch_early(name, *kernel_, grid_, threads_, shared_bytes_,
                stream, static_cast<const void *>(args[0]), args[1],
                form_.map->as<Sum>(others));
    }

    const resident_form form_;
    const std::vector<specification_of_kernel> tried_;
    std::shared_ptr<const jit::compiled_kernel> kernel_;
    int64_t grid_ = 0;
    int threads_ = 0;
    size_t shared_bytes_ = 0;
};

/// All forms of a problem, for tensors at multiples of so many bytes, and the choices among
/// them.
class variants {
public:
    variants(std::vector<resident_form> forms, int alignment,
            const compile_options &options)
        : forms_(std::move(forms)) {
        std::vector<mapped_problem> problems;
        for (resident_form &each : forms_) {
            each.of.specification.alignment = alignment;
            problems.push_back(each.of);
        }
        if (options.specialise)
            choices_ = choices_of(problems,
                    facts_of(properties_of(static_cast<int>(options.device))));
    }
    size_t count() const { return std::max<size_t>(1, choices_.size()); }

    /// The best `tried` ones from a number on, of the form of the first.
    std::unique_ptr<variant> from(size_t number, size_t tried) const {
        const size_t form = choices_.empty() ? 0 : choices_[number].form;
        std::vector<specification_of_kernel> all;
        for (size_t i = number; i < choices_.size() && all.size() < tried; ++i)
            if (choices_[i].form == form)
                all.push_back(choices_[i].specification);
        return std::make_unique<variant>(forms_[form], std::move(all));
    }

private:
    std::vector<resident_form> forms_;
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
