#include <iterator>
#include <memory>
#include <mutex>
#include <span>

#include <gradnn/status.hpp>

#include "base/text.hpp"
#include "gpu/convolution/facts.hpp"
#include "gpu/convolution/operands.hpp"
#include "gpu/convolution/sliding/cuts.hpp"
#include "gpu/jit/load.hpp"
#include "gpu/kernels.hpp"
#include "gpu/runtime/launch.hpp"
#include "gpu/runtime/plan_timer.hpp"
#include "kernel/argument_bytes.hpp"
#include "kernel/problem_text.hpp"

namespace gradnn::gpu::sliding {

using detail::text;

namespace {

constexpr const char *name = "convolution.gpu_sliding";
constexpr int vectors = 16; ///< bytes that tensors are expected at multiples of

jit::kernel_launch launch_of(const kernel_specification &s, bool of_weights) {
    const auto made = [&](const auto &g, const char *file, const char *entry) {
        return jit::kernel_launch {{file, text_of(s), entry}, g.grid,
                s.cut.threads, static_cast<size_t>(g.shared_bytes)};
    };
    if (of_weights)
        return made(weights_geometry::of(s),
                "gpu/convolution/sliding/weights_kernel.cuh",
                "gradnn_slide_weights");
    return made(data_geometry::of(s), "gpu/convolution/sliding/data_kernel.cuh",
            "gradnn_slide_data");
}

/// The kernels for tensors at multiples of so many bytes: compiled when they are first
/// needed.
struct variant {
    const convolution_problem problem;
    std::vector<jit::kernel_launch> kernels = {};
    std::vector<int64_t> parts = {}; ///< 0 of data
    size_t taken = 0; ///< of the kernels
    launcher add_parts = {}; ///< of gradients of weights
    std::once_flag later = {};

    variant(const convolution_problem &of, std::span<const choice> tried)
        : problem(of) {
        for (const auto &[cost, each] : tried) {
            kernels.push_back(launch_of(each, is_of_weights(problem)));
            parts.push_back(each.cut.parts);
        }
    }

    size_t workspace_bytes() const {
        return partial_weights_bytes(problem, std::ranges::max(parts));
    }

    /// The reason if there is no kernel; empty if there is.
    std::string compile(const compile_options &options) {
        std::string refusal;
        const auto found = jit::load_without_spills(kernels, options, refusal);
        if (!found) return refusal;
        taken = *found;
        add_parts = weights_sum_launcher(
                "convolution.gpu_sliding (parts)", problem, parts[taken], true);
        return {};
    }
    /// By the first who needs it.
    const variant &compiled_later(const compile_options &options) {
        std::call_once(later, [&] {
            const std::string refusal = compile(options);
            if (!refusal.empty())
                throw error(status::runtime_error,
                        text(name,
                                ": no kernel for tensors that do not begin at "
                                "a multiple of 16 bytes: ",
                                refusal));
        });
        return *this;
    }

    void launch(const launch_stream &stream, std::span<void *const> args,
            std::byte *workspace) const {
        const jit::kernel_launch &kernel = kernels[taken];
        if (add_parts) {
            kernel(name, stream, args[0], args[2], workspace);
            add_parts({args[0], args[1], args[2], workspace}, stream);
            return;
        }
        const size_t read = is_to_src(problem) ? 2 : 0, written = 2 - read;
        fused_places others {};
        for (size_t i = 3; i < args.size(); ++i)
            others.epilogue[i - 3] = static_cast<const char *>(args[i])
                    - static_cast<const char *>(args[written]);
        kernel(name, stream, args[read], args[1], args[written], others);
    }
};

} // namespace

plan_or_refusal make_fused(const detail::fused_convolution &whole,
        const compile_options &options) {
    const convolution_problem &problem = whole.problem;
    if (!options.specialise)
        return plan_or_refusal::refuse(
                "takes problems that kernels may be compiled for, and the "
                "setting `specialise` is off");
    std::string refusal;
    const gpu_facts &gpu = properties_of(options.device);
    const bool of_weights = is_of_weights(problem);
    // Of all forms of the problem, best first.
    const auto choices_for = [&](int alignment) {
        std::vector<choice> choices;
        for (const auto &form : specifications_of(whole, alignment,
                     can_start_early(options.device), refusal))
            std::ranges::copy(of_weights ? weights_choices(form, gpu)
                                         : data_choices(form, gpu),
                    std::back_inserter(choices));
        std::ranges::stable_sort(choices, {}, &choice::cost);
        return choices;
    };
    const std::vector<choice> ways = choices_for(vectors);
    if (!refusal.empty()) return plan_or_refusal::refuse(refusal);
    const auto bytes = static_cast<int>(detail::size_of(problem.src.type));
    std::vector<choice> others;
    if (!of_weights) others = choices_for(bytes);
    const auto best_of = [](std::span<const choice> all, size_t most) {
        return all.first(std::min(all.size(), most));
    };
    constexpr const char *taken = "windows whose taps fit in registers";
    if (ways.empty()) return detail::refuse(taken, problem);
    constexpr size_t most_tried = 3, most_measured = 6;
    // By measuring one plan for each way to cut the work; else the best by estimate.
    const size_t count = options.autotune ? most_measured : 1;
    auto fastest = fastest_of(
            std::min(ways.size(), count),
            [&](size_t way) -> plan_or_refusal {
                const auto first = std::make_shared<variant>(problem,
                        best_of(std::span(ways).subspan(way),
                                options.autotune ? 1 : most_tried));
                if (std::string why = first->compile(options); !why.empty())
                    return plan_or_refusal::refuse(std::move(why));
                // Weights are cut alike wherever the tensors begin: the order of a sum
                // follows from the cut. Loads of single elements may be too many.
                choice alike = ways[way + first->taken];
                alike.specification.of.alignment = bytes;
                auto tried = best_of(others, most_tried);
                if (of_weights
                        && weights_geometry::of(alike.specification).fits)
                    tried = {&alike, 1};
                if (tried.empty()) return detail::refuse(taken, problem);
                const auto other = std::make_shared<variant>(problem, tried);
                return std::make_unique<launched_plan>(
                        [first, other, options](std::span<void *const> args,
                                std::byte *workspace,
                                const launch_stream &stream) {
                            // Weights are loaded one by one.
                            bool are_aligned = true;
                            for (size_t i = 0; i < args.size(); ++i)
                                are_aligned &= i == 1
                                        || is_aligned(args[i], vectors);
                            (are_aligned ? *first
                                         : other->compiled_later(options))
                                    .launch(stream, args, workspace);
                        },
                        std::max(first->workspace_bytes(),
                                other->workspace_bytes()),
                        first->kernels[first->taken].kernel->backend);
            },
            detail::argument_bytes(whole), options);
    if (!fastest.plan) return fastest;
    return within_workspace_limit(std::move(fastest.plan), options);
}

} // namespace gradnn::gpu::sliding
