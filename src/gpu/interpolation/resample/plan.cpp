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

/// A kernel for tensors at multiples of so many bytes; without one what takes everything serves.
struct variant {
    resident_form form;
    std::optional<jit::kernel_launch> kernel;

    void launch(
            const launch_stream &stream, std::span<void *const> args) const {
        const problem_specification &p = form.of.specification;
        fused_places others {};
        size_t next = 2;
        const auto bytes_from = [&](size_t tensor) {
            return static_cast<const char *>(args[next++])
                    - static_cast<const char *>(args[tensor]);
        };
        if (p.prologue != fused_op::none) others.prologue = bytes_from(0);
        for (int e = 0; e < epilogues_of(p); ++e)
            others.epilogue[e] = bytes_from(1);
        const void *const read = args[0];
        if (!kernel)
            launch_generic(name, p, *form.map, stream, read, args[1], others);
        else if (p.type == element::f64)
            (*kernel)(
                    name, stream, read, args[1], form.map->as<double>(others));
        else
            (*kernel)(name, stream, read, args[1], form.map->as<float>(others));
    }
};

/// All forms of a problem, for tensors at multiples of so many bytes, and the choices among
/// them.
class variants {
public:
    variants(std::vector<resident_form> forms, int alignment,
            const compile_options &options)
        : forms_(std::move(forms)),
          options_(options),
          gpu_(facts_of(properties_of(static_cast<int>(options.device)))) {
        std::vector<mapped_problem> problems;
        for (resident_form &each : forms_) {
            each.of.specification.alignment = alignment;
            problems.push_back(each.of);
        }
        if (options.specialise) choices_ = choices_of(problems, gpu_);
    }
    size_t count() const { return std::max<size_t>(1, choices_.size()); }

    /// Of the best `tried` ones from a number on, of the form of the first, the first that spills
    /// no registers.
    variant compiled(size_t number, size_t tried) const {
        const size_t form = choices_.empty() ? 0 : choices_[number].form;
        std::vector<jit::kernel_launch> all;
        for (size_t i = number; i < choices_.size() && all.size() < tried; ++i)
            if (choices_[i].form == form)
                all.push_back(launch_of(
                        {forms_[form].of.specification, choices_[i].cut_by},
                        gpu_.multiprocessors));
        variant made {forms_[form], {}};
        std::string refusal;
        if (const auto taken = jit::load_without_spills(all, options_, refusal))
            made.kernel = std::move(all[*taken]);
        return made;
    }

private:
    std::vector<resident_form> forms_;
    compile_options options_;
    gpu_facts gpu_;
    std::vector<choice> choices_;
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
    // Of tensors at other multiples than those of 16 bytes, made when they are first met.
    struct met_later {
        std::once_flag met;
        std::optional<variant> made;
    };
    const auto others = std::make_shared<met_later>();
    const variants aligned(forms, vectors, options);
    // By measuring one plan for each way to cut the work; else the best by estimate.
    std::vector<std::unique_ptr<detail::plan>> plans;
    const size_t count
            = options.autotune ? std::min(aligned.count(), most_measured) : 1;
    for (size_t i = 0; i < count; ++i)
        plans.push_back(std::make_unique<launched_plan>(
                [first = aligned.compiled(i, options.autotune ? 1 : most_tried),
                        others, forms, options](std::span<void *const> args,
                        std::byte *, const launch_stream &stream) {
                    if (std::ranges::all_of(args, [](void *each) {
                            return is_aligned(each, vectors);
                        })) {
                        first.launch(stream, args);
                        return;
                    }
                    std::call_once(others->met, [&] {
                        const int alignment
                                = bytes_of(forms[0].of.specification.type);
                        others->made = variants(forms, alignment, options)
                                               .compiled(0, most_tried);
                    });
                    others->made->launch(stream, args);
                }));
    return fastest_of(
            std::move(plans), detail::argument_bytes(problem), options);
}

} // namespace gradnn::gpu::resample
